# SPDX-License-Identifier: Apache-2.0
"""A small network that PyTorch trains: one line a step, the same in each run.

  torch_loop.py [STEPS]
"""
import os
import sys

# cuBLAS computes the same each time only with this.
os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')

import torch  # noqa: E402 (reads the environment)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512),
                                torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(4096, 512).cuda()
    wanted = inputs[:, :8].sum(dim=1, keepdim=True).sin()
    for step in range(steps):
        batch = torch.randint(0, 4096, (256,)).cuda()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[batch]), wanted[batch])
        loss.backward()
        optimizer.step()
        print('step %d: loss %s' % (step, loss.item().hex()), flush=True)
    total = sum(parameter.double().sum() for parameter in model.parameters())
    print('sum of parameters %s' % total.item().hex())


if __name__ == '__main__':
    main()
