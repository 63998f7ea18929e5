#include "tools/cli/launcher.h"

#include <gtest/gtest.h>

#include <sstream>

namespace gpusnap {
namespace {

using Words = std::vector<std::string>;

// '' stands for an empty word.
Words split(const std::string& line) {
  Words words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word == "''" ? std::string() : word);
  return words;
}

std::string join(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

// The programs that there are: those with a slash, and some in PATH.
bool is_program(const std::string& name, const std::string&) {
  return name.find('/') != std::string::npos || name == "solver" || name == "sort";
}

std::optional<LauncherCommand> understand(const std::string& line, const std::string& file = "") {
  return understand_launcher(split(line), file, is_program);
}

struct Understood {
  const char* line;
  const char* wrapped;  // with @ before each program
  uint64_t ranks;       // 0: not known
};

void expect_understood(const Understood& expected, const std::string& file = "") {
  SCOPED_TRACE(expected.line);
  const auto launcher = understand(expected.line, file);
  ASSERT_TRUE(launcher);
  EXPECT_EQ(launcher->problem, "");
  EXPECT_EQ(join(wrap_programs(split(expected.line), *launcher, {"@"})), expected.wrapped);
  EXPECT_EQ(launcher->ranks().value_or(0), expected.ranks);
}

TEST(Launcher, UnderstandsOpenMpi) {
  for (const Understood& each : {
           Understood{"mpirun ./a", "mpirun @ ./a", 0},
           {"mpirun -n 4 ./a big.cfg", "mpirun -n 4 @ ./a big.cfg", 4},
           {"/opt/mpi/bin/mpirun -np 4 a -n 7 --x", "/opt/mpi/bin/mpirun -np 4 @ a -n 7 --x", 4},
           {"mpirun --np 2 -c 3 ./a", "mpirun --np 2 -c 3 @ ./a", 3},
           {"mpirun --np=8 ./a", "mpirun --np=8 @ ./a", 8},
           {"mpirun -N 2 --hostfile hosts ./a", "mpirun -N 2 --hostfile hosts @ ./a", 0},
           {"mpirun --mca btl self,vader -x PATH -x A=1 -np 2 ./a",
            "mpirun --mca btl self,vader -x PATH -x A=1 -np 2 @ ./a", 2},
           {"mpirun --map-by ppr:2:node:PE=4 --bind-to core --report-bindings -n 2 ./a",
            "mpirun --map-by ppr:2:node:PE=4 --bind-to core --report-bindings -n 2 @ ./a", 2},
           {"mpirun --allow-run-as-root --oversubscribe -H a:2,b:2 -n 4 ./a",
            "mpirun --allow-run-as-root --oversubscribe -H a:2,b:2 -n 4 @ ./a", 4},
           {"mpiexec.openmpi -n 1 ./a x : -n 3 ./b y",
            "mpiexec.openmpi -n 1 @ ./a x : -n 3 @ ./b y", 4},
           {"mpirun -n 1 ./a : ./b", "mpirun -n 1 @ ./a : @ ./b", 0},
           {"prterun --prtemca plm ssh --display map --output tag -n 2 ./a",
            "prterun --prtemca plm ssh --display map --output tag -n 2 @ ./a", 2},
           {"prun --dvm-uri file:u --personality ompi -n 2 ./a",
            "prun --dvm-uri file:u --personality ompi -n 2 @ ./a", 2},
           {"orterun -report-pid - -n 2 ./a", "orterun -report-pid - -n 2 @ ./a", 2},
       }) {
    expect_understood(each);
  }
}

TEST(Launcher, UnderstandsHydra) {
  for (const Understood& each : {
           Understood{"mpiexec.hydra -n 4 ./a b", "mpiexec.hydra -n 4 @ ./a b", 4},
           {"mpiexec.mpich -n=4 ./a", "mpiexec.mpich -n=4 @ ./a", 4},
           {"mpiexec -f hosts -ppn 2 -n 4 ./a", "mpiexec -f hosts -ppn 2 -n 4 @ ./a", 4},
           {"mpiexec -genv A B -genv C=D -genvlist X,Y -np 2 ./a",
            "mpiexec -genv A B -genv C=D -genvlist X,Y -np 2 @ ./a", 2},
           {"mpiexec -genvall -env A B ./a : -env A=C -n 2 ./a",
            "mpiexec -genvall -env A B @ ./a : -env A=C -n 2 @ ./a", 0},
           {"mpiexec -launcher ssh -launcher-exec /usr/bin/ssh -rmk user -prepend-rank -l ./a",
            "mpiexec -launcher ssh -launcher-exec /usr/bin/ssh -rmk user -prepend-rank -l @ ./a",
            0},
           {"mpirun.mpich -bind-to core -map-by socket -outfile-pattern out.%r -n 2 ./a",
            "mpirun.mpich -bind-to core -map-by socket -outfile-pattern out.%r -n 2 @ ./a", 2},
           {"mpirun -bootstrap slurm -perhost 4 -gpus-per-proc 1 -n 8 ./a",
            "mpirun -bootstrap slurm -perhost 4 -gpus-per-proc 1 -n 8 @ ./a", 8},
       }) {
    expect_understood(each);
  }
}

TEST(Launcher, UnderstandsSlurm) {
  for (const Understood& each : {
           Understood{"srun ./a", "srun @ ./a", 0},
           {"srun -n 4 ./a -n 8", "srun -n 4 @ ./a -n 8", 4},
           {"srun -n4 -N2 -c8 ./a", "srun -n4 -N2 -c8 @ ./a", 4},
           {"srun -ln4 ./a", "srun -ln4 @ ./a", 4},
           {"srun -lun 4 ./a", "srun -lun 4 @ ./a", 4},
           {"srun --ntasks=16 --cpus-per-task=4 --gpus-per-task=1 ./a b=c",
            "srun --ntasks=16 --cpus-per-task=4 --gpus-per-task=1 @ ./a b=c", 16},
           {"srun --ntasks 2 --mpi pmix --cpu-bind cores -p gpu -t 1:00:00 ./a",
            "srun --ntasks 2 --mpi pmix --cpu-bind cores -p gpu -t 1:00:00 @ ./a", 2},
           {"srun -N 2 --ntasks-per-node 4 --gres=gpu:4 --exclusive ./a",
            "srun -N 2 --ntasks-per-node 4 --gres=gpu:4 --exclusive @ ./a", 0},
           {"srun --export=ALL,A=1 --kill-on-bad-exit=1 --exclusive=user -K ./a",
            "srun --export=ALL,A=1 --kill-on-bad-exit=1 --exclusive=user -K @ ./a", 0},
           {"srun --pty --het-group=0 -n1 ./a : --het-group=1 -n2 ./b",
            "srun --pty --het-group=0 -n1 @ ./a : --het-group=1 -n2 @ ./b", 3},
       }) {
    expect_understood(each);
  }
}

TEST(Launcher, KnowsTheFoldersThatRanksWorkIn) {
  const auto folder = [](const std::string& line) {
    return understand(line)->programs.at(0).folder;
  };
  EXPECT_EQ(folder("mpirun ./a"), "");
  EXPECT_EQ(folder("mpirun -wdir /data ./a"), "/data");
  EXPECT_EQ(folder("mpirun --wd sub ./a"), "sub");
  EXPECT_EQ(folder("srun -D /data ./a"), "/data");
  EXPECT_EQ(folder("srun --chdir=/data ./a"), "/data");
  const auto both = understand("mpirun -wdir /one ./a x : -n 2 ./b y z");
  ASSERT_EQ(both->programs.size(), 2U);
  EXPECT_EQ(both->programs[1].folder, "");
  EXPECT_EQ(both->programs[0].begin, 3U);
  EXPECT_EQ(both->programs[0].end, 5U);
  EXPECT_EQ(both->programs[1].begin, 8U);
  EXPECT_EQ(both->programs[1].end, 11U);
}

TEST(Launcher, KnowsLaunchersByTheirFiles) {
  // As where an alternative leads to it, or a module's own name.
  expect_understood({"mpirun -n 2 ./a", "mpirun -n 2 @ ./a", 2}, "/usr/bin/orterun");
  expect_understood({"start -n 2 ./a", "start -n 2 @ ./a", 2}, "/opt/mpich/bin/mpiexec.hydra");
  expect_understood({"mpiexec -c2 ./a", "mpiexec -c2 @ ./a", 0}, "/usr/bin/srun");
  expect_understood({"prterun -n 2 ./a", "prterun -n 2 @ ./a", 2}, "/usr/bin/prte");
  expect_understood({"mpirun -n 2 ./a", "mpirun -n 2 @ ./a", 2}, "/opt/site/start.sh");
  for (const char* line : {"./solver -n 4", "sh -c mpirun", "mpirun.py ./a", "env mpirun ./a"}) {
    EXPECT_FALSE(understand(line, "/usr/bin/other")) << line;
  }
  EXPECT_FALSE(understand_launcher({}, "/usr/bin/mpirun", is_program));
}

TEST(Launcher, LooksForTheProgramBehindOptionsThatItDoesNotKnow) {
  for (const Understood& each : {
           Understood{"mpirun --new ./a", "mpirun --new @ ./a", 0},
           {"mpirun --new 3 -n 4 ./a b", "mpirun --new 3 -n 4 @ ./a b", 4},
           {"mpirun --new on,off solver b", "mpirun --new on,off @ solver b", 0},
           {"mpirun --new=./x -n 2 ./a", "mpirun --new=./x -n 2 @ ./a", 2},
           {"mpirun --new ./a -v b", "mpirun --new @ ./a -v b", 0},
           {"mpirun --new -n 2 sort ./b", "mpirun --new -n 2 @ sort ./b", 2},
           {"srun --new 1 -Y x --newer ./a b", "srun --new 1 -Y x --newer @ ./a b", 0},
           // The files that there are decide nothing where all is known.
           {"mpirun -n 2 remote ./b", "mpirun -n 2 @ remote ./b", 2},
       }) {
    expect_understood(each);
  }
}

struct Refused {
  const char* line;
  const char* problem;
};

TEST(Launcher, SaysWhatItCannotTell) {
  for (const Refused& each : {
           Refused{"mpirun", "mpirun: no program"},
           {"/usr/bin/mpirun -v --oversubscribe", "mpirun: no program"},
           {"mpirun ''", "no program"},
           {"mpirun :", "no program"},
           {"mpirun ./a :", "no program"},
           {"mpirun : ./a", "no program"},
           {"mpirun -n", "-n needs a value"},
           {"mpirun --mca btl", "--mca needs a value"},
           {"mpirun -n : ./a", "-n needs a value"},
           {"mpirun -genv A", "-genv needs a value"},
           {"srun --ntasks", "--ntasks needs a value"},
           {"srun -ln", "-ln needs a value"},
           {"mpirun -n 2 -- ./a", "'--'"},
           {"srun -- ./a", "'--'"},
           {"mpirun --app file", "--app has the programs in a file"},
           {"mpiexec -configfile file", "-configfile has the programs in a file"},
           {"mpiexec -configfile=file ./a", "has the programs in a file"},
           {"srun --multi-prog file", "--multi-prog has the programs in a file"},
           {"srun --bcast=/tmp/a ./a", "copy"},
           {"mpirun --preload-binary ./a", "copy"},
           {"mpirun -path /opt a", "-path looks for the program"},
           {"mpirun --new x", "--new is not known, and no program"},
           {"mpirun --new ./a ./b", "--new is not known: ./a or ./b"},
           {"mpirun --new ./a -v ./b", "--new is not known: ./a or ./b"},
           {"srun -Y solver sort", "-Y is not known: solver or sort"},
           {"jsrun -n 4 ./a", "jsrun: its options are not known"},
           {"/usr/bin/aprun ./a", "aprun: its options are not known"},
           {"flux run -n 4 ./a", "flux: its options are not known"},
       }) {
    SCOPED_TRACE(each.line);
    const auto launcher = understand(each.line);
    ASSERT_TRUE(launcher);
    EXPECT_NE(launcher->problem.find(each.problem), std::string::npos) << launcher->problem;
    EXPECT_TRUE(launcher->programs.empty());
  }
}

TEST(Launcher, CountsNoRanksFromNonsense) {
  for (const char* line : {"mpirun -n x ./a", "mpirun -n 0 ./a", "mpirun -n -1 ./a",
                           "mpirun -n 99999999999 ./a", "srun -n4k ./a", "mpirun -n '' ./a"}) {
    EXPECT_FALSE(understand(line)->ranks()) << line;
  }
}

}  // namespace
}  // namespace gpusnap
