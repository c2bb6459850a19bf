# SPDX-License-Identifier: GPL-2.0-only
"""Generates random scripts (docs/scripts.md).

Each script uses a random subset of the features with random weights (swarm testing), so a rare
combination is not hidden by the common ones. The same seed yields the same script.
"""

import random

# Each feature and the weight of its commands. `wake`, `block` and `advance` are always used.
FEATURES = {
    "sleep": 3,
    "yield": 1,
    "fork": 2,
    "exec": 1,
    "exit": 1,
    "nice": 2,
    "slice": 2,
    "affinity": 2,
    "idle": 2,
    "batch": 1,
    "rt": 2,
    "groups": 3,
    "limits": 2,
    "hotplug": 1,
    "migrate_disable": 1,
    "kernel": 1,
    "sync": 2,
}

# Scheduler features, and how many of 100 scripts with features have each of them. Those that change
# nearly every decision are rare.
SWITCHES = {
    "NEXT_BUDDY": 40,
    "NO_PICK_BUDDY": 20,
    "NO_CACHE_HOT_BUDDY": 20,
    "NO_NI_RANDOM": 20,
    "NO_NI_RATE": 20,
    "NO_PLACE_LAG": 4,
    "NO_PLACE_DEADLINE_INITIAL": 8,
    "NO_PLACE_REL_DEADLINE": 8,
    "NO_RUN_TO_PARITY": 4,
    "NO_PREEMPT_SHORT": 8,
    "NO_DELAY_DEQUEUE": 4,
    "NO_DELAY_ZERO": 8,
    "NO_WAKEUP_PREEMPTION": 4,
    "NO_HRTICK": 4,
    "NO_TTWU_QUEUE": 8,
    "NO_SIS_UTIL": 8,
    "LB_MIN": 8,
    "NO_ATTACH_AGE_LOAD": 8,
    "NO_WA_IDLE": 8,
    "NO_WA_WEIGHT": 8,
    "NO_WA_BIAS": 8,
    "NO_UTIL_EST": 8,
}

DURATIONS = ["100us", "300us", "700us", "1ms", "1500us", "2ms", "3ms", "4ms", "7ms", "10ms", "25ms", "60ms"]


def machine(rng):
    """Returns the number of CPUs and the line with the machine."""
    cpus = rng.choice([2, 2, 3, 4, 4, 4, 6, 8])
    half = cpus // 2
    halves = f"1-{half}/{half + 1}-{cpus}" if half > 1 else "1/2"
    kinds = ["plain"]
    if cpus % 2 == 0 and cpus >= 4:
        kinds += ["llc", "smt", "nodes", "asym"]
    kind = rng.choice(kinds)
    line = f"machine cpus={cpus}"
    if kind == "llc":
        line += f" llc={halves}"
    elif kind == "smt":
        line += " smt=" + "/".join(f"{cpu}-{cpu + 1}" for cpu in range(1, cpus, 2))
    elif kind == "nodes":
        line += f" nodes={halves}"
    elif kind == "asym":
        line += " capacities=" + ",".join(["1024"] * half + ["400"] * (cpus - half))
    return cpus, kind, line


def switches(seed):
    """Returns the scheduler features of a script: at least one. The rest of the script does not depend on them."""
    rng = random.Random(f"features {seed}")
    chosen = [name for name, percent in SWITCHES.items() if rng.random() < percent / 100]
    return chosen or [rng.choice(list(SWITCHES))]


class Generator:
    """The state of a script that is being generated."""

    def __init__(self, seed, without=(), policy=None, always=()):
        self.rng = random.Random(seed)
        self.cpus, self.kind, first = machine(self.rng)
        self.lines = [first] + ([f"policy {policy}"] if policy else [])
        usable = sorted(set(FEATURES) - set(without))
        self.features = {
            name: FEATURES[name] * self.rng.choice([0.3, 1, 3])
            for name in usable
            if self.rng.random() < 0.4 or name in always
        }
        self.tasks = []
        # All groups, those that have subgroups, and those in which a task has been. Linux refuses tasks in
        # a group with subgroups (the no internal process constraint).
        self.groups = []
        self.parents = set()
        self.inhabited = set()
        # Tasks that may be in a section without migration, and tasks with threads.
        self.held = set()
        self.threaded = set()
        self.offline = set()

    def name(self):
        self.count = getattr(self, "count", 0) + 1
        return f"t{self.count}"

    def cpu(self):
        return self.rng.randint(1, self.cpus)

    def cpu_list(self):
        some = sorted(self.rng.sample(range(1, self.cpus + 1), self.rng.randint(1, self.cpus)))
        return ",".join(map(str, some))

    def attributes(self):
        rng, words = self.rng, []
        if "rt" in self.features and rng.random() < 0.15:
            words += [f"class={rng.choice(['fifo', 'rr'])}", f"prio={rng.randint(1, 50)}"]
        elif "idle" in self.features and rng.random() < 0.25:
            words.append("class=idle")
        elif "batch" in self.features and rng.random() < 0.25:
            words.append("class=batch")
        if "nice" in self.features and rng.random() < 0.3 and not words:
            words.append(f"nice={rng.choice([-20, -10, -5, -1, 1, 5, 10, 19])}")
        if "slice" in self.features and rng.random() < 0.3 and not words:
            words.append(f"slice={rng.choice(['300us', '1ms', '3ms', '10ms', '50ms'])}")
        return words

    def create(self):
        name, words = self.name(), self.attributes()
        if "affinity" in self.features and self.rng.random() < 0.3:
            words.append(f"cpus={self.cpu_list()}")
        if self.groups and self.rng.random() < 0.7:
            words.append(f"cgroup={self.leaf()}")
        elif "kernel" in self.features and self.rng.random() < 0.2:
            words.append("kernel")
        self.tasks.append(name)
        self.lines.append(" ".join(["create", name] + words))
        self.wake(name)

    def leaf(self):
        """Returns a group without subgroups, in which a task will be."""
        group = self.rng.choice([group for group in self.groups if group not in self.parents])
        self.inhabited.add(group)
        return group

    def wake(self, name=None):
        name = name or self.rng.choice(self.tasks)
        sync = " sync" if "sync" in self.features and self.rng.random() < 0.3 else ""
        waker = f"by={self.rng.choice(self.tasks)}" if self.rng.random() < 0.4 and len(self.tasks) > 1 else None
        if waker == f"by={name}":
            waker = None
        self.lines.append(f"wake {name} {waker or f'from={self.cpu()}'}{sync}")

    def command(self):
        rng = self.rng
        weights = {"wake": 6, "block": 5, "advance": 8, "tick": 1, "create": 2 if len(self.tasks) < 30 else 0}
        for name, weight in self.features.items():
            if name not in ("kernel", "sync", "batch", "idle", "rt", "slice", "nice"):
                weights[name] = weight
        if any(name in self.features for name in ("batch", "idle", "rt", "slice", "nice")):
            weights["set"] = 2
        kind = rng.choices(list(weights), list(weights.values()))[0]
        task = rng.choice(self.tasks)
        line = None
        if kind == "wake":
            return self.wake()
        if kind == "create":
            return self.create()
        if kind == "fork" and task not in self.held:
            # Linux never forks in a section without migration.
            child, how = self.name(), rng.choice(["fork", "fork", "thread"])
            line = f"{how} {task} {child}"
            if how == "thread":
                self.threaded.update((task, child))
            # The child exists only if the parent runs. Otherwise, the later lines with it have no effect.
            self.tasks.append(child)
        elif kind == "exec" and task not in self.threaded and task not in self.held:
            # A task with threads would wait for their end, and a program that begins is in user mode.
            line = f"exec {task}"
        elif kind in ("block", "yield", "exit"):
            line = f"{kind} {task}"
        elif kind == "sleep":
            line = f"sleep {task} {rng.choice(DURATIONS[:10])}"
        elif kind == "advance":
            line = f"advance {rng.choice(DURATIONS)}"
        elif kind == "tick":
            line = "tick"
        elif kind == "set":
            words = self.attributes()
            line = " ".join(["set", task] + words) if words else None
        elif kind == "affinity":
            line = f"affinity {task} {self.cpu_list()}" if task not in self.held else None
        elif kind == "migrate_disable":
            line = f"{rng.choice(['migrate_disable', 'migrate_enable'])} {task}"
            self.held.add(task)
        elif kind == "groups":
            line = self.group_command(task)
        elif kind == "limits" and self.groups:
            quota = rng.choice(["max", "2000", "5000", "10000", "30000"])
            line = f"cpu.max {rng.choice(self.groups)} {quota} {rng.choice([10000, 20000, 100000])}"
        elif kind == "hotplug":
            line = self.hotplug()
        if line:
            self.lines.append(line)

    def group_command(self, task):
        rng = self.rng
        if len(self.groups) < 5 and rng.random() < 0.4:
            parents = [group for group in self.groups if group not in self.inhabited and group.count("/") < 3]
            parent = rng.choice(parents) if parents and rng.random() < 0.6 else ""
            self.parents.add(parent)
            self.groups.append(f"{parent}/g{len(self.groups) + 1}")
            return f"group {self.groups[-1]}"
        if not self.groups:
            return None
        group, how = rng.choice(self.groups), rng.random()
        if how < 0.3:
            return f"move {task} {self.leaf()}"
        return rng.choice(
            [
                f"move {task} /",
                f"weight {group} {rng.choice([10, 50, 200, 1000])}",
                f"cpu.idle {group} {rng.choice([0, 1])}",
            ]
        )

    def hotplug(self):
        if self.offline and self.rng.random() < 0.5:
            cpu = self.offline.pop()
            return f"hotplug {cpu} on"
        if len(self.offline) + 1 < self.cpus:
            cpu = self.cpu()
            if cpu not in self.offline:
                self.offline.add(cpu)
                return f"hotplug {cpu} off"
        return None

    def script(self):
        for _ in range(self.rng.randint(1, 6)):
            self.create()
        length = self.rng.randint(40, 80)
        while len(self.lines) < length:
            self.command()
        self.lines.append("advance 40ms")
        return "\n".join(self.lines) + "\n"


class Set:
    """A kind of random scripts: with a policy, without some commands, and with others in each script."""

    def __init__(self, name, without=(), policies=(None,), always=(), switched=False):
        self.name, self.without, self.policies, self.always = name, without, policies, always
        # Whether the scripts switch features of the scheduler.
        self.switched = switched

    def script(self, seed):
        """Returns the script with a seed."""
        policy = self.policies[seed % len(self.policies)]
        script = Generator(seed, self.without, policy, self.always).script()
        if not self.switched:
            return script
        machine, rest = script.split("\n", 1)
        return f"{machine} features={','.join(switches(seed))}\n{rest}"


# Policies that the verifier accepts within seconds, also in a guest without KVM.
POLICIES = ["fifo", "vtime", "percpu", "shared_runq", "rr", "steal"]
# scx_central is compiled by `make compat`, and must be copied into target/live/policies.
ALL = (
    "bfs dss dss25 edf fifo linux26 lottery mlfq mqs nest o1 percpu pls pmqs rr shared_runq shinjuku steal stride "
    "torus ule vtime windows scx_central"
).split()
PLAIN = ("limits", "rt", "hotplug")
# CPU 0 does not take part in scripts. With its default quantum of 30 us, shinjuku writes thousands of lines.
PARAMETERS = {"scx_central": "central_cpu=1", "shinjuku": "quantum_ns=1500000"}


def with_parameters(policy):
    """Returns the words of a script that load a policy."""
    return " ".join(filter(None, (policy, PARAMETERS.get(policy))))


SETS = {
    "fair": Set("fair", PLAIN),
    "features": Set("features", PLAIN, switched=True),
    "groups": Set("groups", ("rt", "hotplug"), always=("groups", "limits")),
    "rt": Set("rt", ("limits", "hotplug"), always=("rt",)),
    "ext": Set("ext", PLAIN, POLICIES),
    "all": Set("all", ("hotplug",)),
    "hotplug": Set("hotplug", always=("hotplug",)),
    "hotplug_ext": Set("hotplug_ext", ("limits", "rt"), POLICIES, always=("hotplug",)),
    "hotplug_all": Set("hotplug_all", ("limits", "rt"), [with_parameters(name) for name in ALL], always=("hotplug",)),
}


def named_set(name):
    """Returns the set with a name. The name of a policy stands for scripts with this policy."""
    return SETS.get(name) or Set(name, PLAIN, (with_parameters(name),))
