#include "tools/cli/launcher.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>

namespace gpusnap {
namespace {

enum class Meaning { kNone, kRanks, kFolder, kVariable };

struct Option {
  std::string_view names;  // without dashes, a space between them
  size_t values = 0;
  Meaning meaning = Meaning::kNone;
  std::string_view refused = {};  // why it cannot be followed; empty where it can
};

constexpr std::string_view kFromFile = "has the programs in a file";
constexpr std::string_view kCopied = "starts a copy of the program, beside which no library is";

// Open MPI 4 and 5, PRRTE, MPICH, Intel MPI: no name means one thing here and another there, but
// -N, the processes of all nodes or of each. -s is left out, a flag here and not there.
constexpr std::array kMpiOptions = {
    Option{"n np c", 1, Meaning::kRanks},
    Option{"wdir wd", 1, Meaning::kFolder},
    Option{"env genv", 2, Meaning::kVariable},
    Option{"mca gmca omca gomca prtemca gprtemca pmixmca gpmixmca", 2},
    // Which hosts, how many there, and where on each
    Option{"H host hosts hostlist hostfile f machine machines machinefile machinelist "
           "default-hostfile add-host add-hostfile rf rankfile N ppn perhost grr npernode "
           "npersocket ppr map-by rank-by bind-to binding membind cpu-set cpu-list cpus-per-proc "
           "cpus-per-rank gpus-per-proc gpu-subdevs-per-proc max-vm-size order-nodes cf cartofile "
           "topolib usize soft arch memory-alloc-kinds",
           1},
    // The processes' environment and input, and where their output goes
    Option{"x envlist genvlist prefix app-prefix pmix-prefix preload-files am tune stdin "
           "output-filename output display outfile outfile-pattern errfile errfile-pattern "
           "prepend-pattern xml-file xterm report-events report-pid report-uri stream-buffering",
           1},
    // How they are started and ended
    Option{"launcher launcher-exec bootstrap bootstrap-exec rmk demux iface nameserver localhost "
           "launch-agent hnp dvm-uri pid namespace ompi-server personality runtime-options "
           "with-ft max-restarts timeout spawn-timeout debugger initial-errhandler pset "
           "keepalive gtool",
           1},
    Option{"nolocal oversubscribe nooversubscribe pernode bycore byslot bynode bind-to-core "
           "bind-to-socket use-hwthread-cpus novm skip-launch-node rr envall envnone genvall "
           "genvnone noprefix set-cwd-to-session-dir display-map display-allocation "
           "display-devel-map display-devel-allocation display-diffable-map display-topo "
           "display-comm display-comm-finalize report-bindings output-proctable tag-output "
           "timestamp-output merge-stderr-to-stdout xml l prepend-rank print-all-exitcodes q "
           "quiet v verbose V version h help info d debug debug-devel debug-daemons "
           "debug-daemons-file leave-session-attached tv profile show-progress "
           "get-stack-traces report-state-on-timeout report-child-jobs-separately "
           "allow-run-as-root continuous do-not-launch do-not-resolve enable-recovery "
           "disable-recovery enable-instant-on-support fwd-mpirun-port index-argv-by-rank "
           "use-regexp enable-x disable-x enable-auto-cleanup disable-auto-cleanup "
           "enable-hostname-propagation disable-hostname-propagation pmi-port"},
    Option{"app configfile", 1, Meaning::kNone, kFromFile},
    Option{"path", 1, Meaning::kNone, "looks for the program in folders of its own"},
    Option{"preload-binary", 0, Meaning::kNone, kCopied},
};

// Slurm. Values that may be left out are always joined by '=', and so the options count as flags.
constexpr std::array kSlurmOptions = {
    Option{"n ntasks", 1, Meaning::kRanks},
    Option{"D chdir", 1, Meaning::kFolder},
    Option{"A account accel-bind acctg-freq B extra-node-info b begin bb bbf bcast-exclude C "
           "constraint c cpus-per-task cluster-constraint M clusters comment container "
           "container-id cores-per-socket S core-spec cpu-bind cpu-freq cpus-per-gpu deadline "
           "delay-boot d dependency m distribution epilog e error x exclude export export-file "
           "extra G gpus gpus-per-node gpus-per-socket gpus-per-task gpu-bind gpu-freq gres "
           "gres-flags het-group gid hint i input jobid J job-name kill-on-invalid-dep L licenses "
           "mail-type mail-user max-threads mcs-label mem mem-bind mem-per-cpu mem-per-gpu "
           "mincpus mpi msg-timeout network F nodefile w nodelist N nodes ntasks-per-core "
           "ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode o output p "
           "partition power prefer priority profile prolog q qos r relative reservation segment "
           "signal slurmd-debug sockets-per-node switches task-epilog task-prolog tasks-per-node "
           "T threads thread-spec threads-per-core t time time-min tmp tres-bind tres-per-task "
           "treewidth uid W wait wckey",
           1},
    Option{"contiguous X disable-status exact exclusive external get-user-env h help H hold I "
           "immediate ignore-pbs K kill-on-bad-exit k no-kill l label Z no-allocate nice O "
           "overcommit overlap s oversubscribe share E preserve-env propagate pty Q quiet "
           "quit-on-interrupt reboot resv-ports send-libs compress spread-job stepmgr "
           "test-only u unbuffered use-min-nodes usage V version v verbose whole x11 "
           "wait-all-nodes oom-kill-step"},
    Option{"multi-prog", 0, Meaning::kNone, kFromFile},
    Option{"bcast", 0, Meaning::kNone, kCopied},
};

// How a launcher reads its options.
struct Dialect {
  std::span<const Option> options;
  bool letters = false;  // behind one dash come options of one letter, and a value at once
};
constexpr Dialect kMpi = {kMpiOptions, false};
constexpr Dialect kSlurm = {kSlurmOptions, true};

constexpr std::array<std::string_view, 10> kMpiNames = {
    "mpirun",        "mpiexec",        "orterun",         "prterun",      "prun",
    "mpiexec.hydra", "mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich"};
constexpr std::array<std::string_view, 8> kOtherNames = {
    "jsrun", "lrun", "aprun", "flux", "ibrun", "mpirun_rsh", "mpiexec_mpt", "yhrun"};

std::string_view name_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Dialect* dialect_of(std::string_view name) {
  if (is_in(kMpiNames, name)) return &kMpi;
  return name == "srun" ? &kSlurm : nullptr;
}

const Option* find_option(const Dialect& dialect, std::string_view name) {
  for (const Option& option : dialect.options) {
    for (std::string_view rest = option.names; !rest.empty();) {
      const size_t space = std::min(rest.find(' '), rest.size());
      if (rest.substr(0, space) == name) return &option;
      rest.remove_prefix(std::min(space + 1, rest.size()));
    }
  }
  return nullptr;
}

std::optional<uint32_t> number_in(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0) return std::nullopt;
  return number;
}

bool is_option(const std::string& argument) {
  return argument.starts_with('-') && argument.size() > 1;
}

// Reads what belongs to one program: options, its name, its arguments.
class Part {
 public:
  Part(const Dialect& dialect, std::span<const std::string> arguments, const IsProgram& is_program)
      : dialect_(dialect), arguments_(arguments), is_program_(is_program) {}

  // Returns what is wrong, or nothing: then `program` is known, counted from the beginning of the
  // part.
  std::string read(LaunchedProgram& program) {
    while (at_ < arguments_.size()) {
      const std::string& argument = arguments_[at_];
      if (is_option(argument)) {
        std::string problem = dialect_.letters && !argument.starts_with("--")
                                  ? read_letters(argument, program)
                                  : read_option(argument, program);
        if (!problem.empty()) return problem;
      } else if (unknown_.empty() || is_program_(argument, program.folder)) {
        return found(program);
      } else {
        ++at_;  // a value of the option that is not known
      }
    }
    return unknown_.empty() ? "no program is behind its options"
                            : "the option " + unknown_ + " is not known, and no program found";
  }

 private:
  std::string found(LaunchedProgram& program) {
    const std::string& name = arguments_[at_];
    if (name.empty()) return "no program is behind its options, but an empty argument";
    // It may as well be the value of that option.
    if (!unknown_.empty() && arguments_[at_ - 1] == unknown_) {
      const auto others = arguments_.subspan(at_ + 1);
      const auto other = std::ranges::find_if(others, [&](const std::string& argument) {
        return !is_option(argument) && is_program_(argument, program.folder);
      });
      if (other != others.end()) {
        return "the option " + unknown_ + " is not known: " + name + " or " + *other +
               " may be the program";
      }
    }
    program.begin = at_;
    program.end = arguments_.size();
    return {};
  }

  // -name, --name, --name=value
  std::string read_option(const std::string& argument, LaunchedProgram& program) {
    if (argument == "--") return "'--' before the program is not understood; leave it out";
    std::string_view name = argument;
    name.remove_prefix(name.starts_with("--") ? 2 : 1);
    const size_t equals = name.find('=');
    const Option* const option = find_option(dialect_, name.substr(0, equals));
    std::optional<std::string_view> joined;
    if (equals != std::string_view::npos) joined = name.substr(equals + 1);
    ++at_;
    if (option != nullptr) return apply(*option, argument, joined, program);
    if (!joined) unknown_ = argument;
    return {};
  }

  // -lv, -n 4, -n4, -ln4
  std::string read_letters(const std::string& argument, LaunchedProgram& program) {
    ++at_;
    for (size_t i = 1; i < argument.size(); ++i) {
      const Option* const option = find_option(dialect_, argument.substr(i, 1));
      if (option == nullptr) {
        unknown_ = argument;
        return {};
      }
      if (option->values == 0) continue;
      std::optional<std::string_view> joined;
      if (i + 1 < argument.size()) joined = std::string_view(argument).substr(i + 1);
      return apply(*option, argument, joined, program);
    }
    return {};
  }

  // Passes over the option's values and keeps what they mean. `joined`: the first, where it is in
  // the same argument.
  std::string apply(const Option& option, const std::string& argument,
                    std::optional<std::string_view> joined, LaunchedProgram& program) {
    if (!option.refused.empty()) return argument + " " + std::string(option.refused);
    size_t behind = option.values;
    if (joined && behind > 0) --behind;
    // NAME=VALUE for NAME VALUE
    if (option.meaning == Meaning::kVariable && behind == 2 && at_ < arguments_.size() &&
        arguments_[at_].find('=') != std::string::npos) {
      behind = 1;
    }
    if (behind > arguments_.size() - at_) return argument + " needs a value";
    std::string_view value = joined.value_or("");
    if (!joined && behind > 0) value = arguments_[at_];
    if (option.meaning == Meaning::kRanks) program.ranks = number_in(value);
    if (option.meaning == Meaning::kFolder) program.folder = value;
    at_ += behind;
    return {};
  }

  const Dialect& dialect_;
  std::span<const std::string> arguments_;
  const IsProgram& is_program_;
  size_t at_ = 0;
  std::string unknown_;  // the last option that is not known; it may have values
};

LauncherCommand read_command(const Dialect& dialect, const std::vector<std::string>& command,
                             const IsProgram& is_program) {
  LauncherCommand found;
  const std::span<const std::string> all(command);
  for (size_t begin = 1; begin <= command.size();) {
    const auto colon =
        std::find(command.begin() + static_cast<ptrdiff_t>(begin), command.end(), ":");
    const auto end = static_cast<size_t>(colon - command.begin());
    LaunchedProgram program;
    found.problem = Part(dialect, all.subspan(begin, end - begin), is_program).read(program);
    if (!found.problem.empty()) {
      found.problem.insert(0, std::string(name_part(command[0])) + ": ");
      found.programs.clear();
      return found;
    }
    program.begin += begin;
    program.end += begin;
    found.programs.push_back(std::move(program));
    begin = end + 1;
  }
  return found;
}

}  // namespace

std::optional<uint64_t> LauncherCommand::ranks() const {
  uint64_t all = 0;
  for (const LaunchedProgram& program : programs) {
    if (!program.ranks) return std::nullopt;
    all += *program.ranks;
  }
  return all;
}

std::optional<LauncherCommand> understand_launcher(const std::vector<std::string>& command,
                                                   const std::string& file,
                                                   const IsProgram& is_program) {
  if (command.empty()) return std::nullopt;
  // The file says more of a name that is a link than the name does.
  for (const std::string_view name : {name_part(file), name_part(command[0])}) {
    if (const Dialect* const dialect = dialect_of(name)) {
      return read_command(*dialect, command, is_program);
    }
    if (is_in(kOtherNames, name)) {
      LauncherCommand unknown;
      unknown.problem = std::string(name) + ": its options are not known";
      return unknown;
    }
  }
  return std::nullopt;
}

std::vector<std::string> wrap_programs(const std::vector<std::string>& command,
                                       const LauncherCommand& launcher,
                                       const std::vector<std::string>& wrapper) {
  std::vector<std::string> wrapped;
  size_t done = 0;
  for (const LaunchedProgram& program : launcher.programs) {
    const auto begin = command.begin() + static_cast<ptrdiff_t>(program.begin);
    wrapped.insert(wrapped.end(), command.begin() + static_cast<ptrdiff_t>(done), begin);
    wrapped.insert(wrapped.end(), wrapper.begin(), wrapper.end());
    done = program.begin;
  }
  wrapped.insert(wrapped.end(), command.begin() + static_cast<ptrdiff_t>(done), command.end());
  return wrapped;
}

}  // namespace gpusnap
