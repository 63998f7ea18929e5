// Chains of nodes that lie in many allocations; the only way to a node is through device memory.
#include "pointers.h"

DEVICE Node* node(Node** pools, unsigned number) {
  return pools[number / kPoolNodes] + number % kPoolNodes;
}

// Puts the nodes on one ring in the given order.
KERNEL void link(Node** pools, const unsigned* order) {
  const unsigned at = global_index();
  node(pools, order[at])->next = node(pools, order[(at + 1) % kNodes]);
}

KERNEL void set_up(Node** pools, unsigned long long** totals) {
  const unsigned at = global_index();
  Node* self = node(pools, at);
  self->next = self;
  self->total = totals[at / kPoolNodes] + at % kPoolNodes;
  self->key = at * 2654435761u;
  self->home = at;
}

// Every node walks along the ring from itself.
KERNEL void walk(Node** pools) {
  Node* self = node(pools, global_index());
  unsigned long long sum = *self->total;
  const Node* visited = self;
  for (unsigned hop = 0; hop < kHops; ++hop) {
    visited = visited->next;
    sum = mixed(sum, visited->key);
  }
  *self->total = sum;
}

KERNEL void rekey(Node** pools) {
  Node* self = node(pools, global_index());
  self->key = self->key * 1664525u + self->next->home;
}
