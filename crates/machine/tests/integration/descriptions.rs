// SPDX-License-Identifier: GPL-2.0-only
//! Tests of all kinds of descriptions that `--machine` accepts, and of the errors for invalid ones.

use machine::{Feature, FrequencyDomain, FrequencyGovernor, Governor, MachineSpec, define, load};
use std::path::{Path, PathBuf};

fn data(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    path.to_str().unwrap().to_owned()
}

fn get(spec: &str) -> MachineSpec {
    load(spec, &[]).unwrap_or_else(|e| panic!("{e}"))
}

fn shape(spec: &str) -> [usize; 5] {
    let t = get(spec).topology;
    [
        t.packages.len(),
        t.nodes.len(),
        t.llcs.len(),
        t.cores.len(),
        t.cpus.len(),
    ]
}

/// Writes a machine file into a directory of its own and loads it by name.
fn file(test: &str, text: &str) -> Result<machine::Definition, String> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("m.toml"), text).unwrap();
    let prefix = format!("{}/", dir.display());
    define("m", &[&dir]).map_err(|e| e.to_string().replace(&prefix, ""))
}

#[test]
fn synthetic_strings_are_read() {
    assert_eq!(shape("node:2 core:8 pu:2"), [2, 2, 2, 16, 32]);
    assert_eq!(shape("pack:2 node:2 l3:2 core:2 pu:2"), [2, 4, 8, 16, 32]);
    assert_eq!(shape("6"), [1, 1, 1, 6, 6]);
    assert_eq!(shape("core:4 pu:2"), [1, 1, 1, 4, 8]);
    // A private L2 cache counts as a last-level cache. CPUs without caches are assumed to share one
    // LLC per package.
    assert_eq!(shape("pack:2 l2:4 pu:1"), [2, 1, 8, 8, 8]);
    assert_eq!(shape("pack:2 core:4 pu:1"), [2, 1, 2, 8, 8]);
    // Without caches, two nodes of a package do not share an LLC.
    assert_eq!(shape("pack:1 node:2 core:2 pu:1"), [1, 2, 2, 4, 4]);
    let t = get("node:2 core:2 pu:2").topology;
    assert_eq!(t.siblings(2), [2, 3]);
    assert_eq!(t.node_distances, [[10, 20], [20, 10]]);
}

#[test]
fn machines_up_to_the_maximum_are_read() {
    assert_eq!(shape("node:4 l3:16 core:32 pu:2"), [4, 4, 64, 2048, 4096]);
    assert_eq!(shape("node:8 l3:16 core:64 pu:1"), [8, 8, 128, 8192, 8192]);
    let e = load("node:4 core:2048 pu:2", &[]).unwrap_err().to_string();
    assert!(e.contains("has more than 8192 CPUs"), "{e}");
    let e = load("pu:99999999999999999999999", &[]).unwrap_err().to_string();
    assert!(e.contains("has no number of objects"), "{e}");
    let e = load("node:4294967296 core:4294967296 pu:1", &[])
        .unwrap_err()
        .to_string();
    assert!(e.contains("more than 8192 CPUs"), "{e}");
}

#[test]
fn xml_files_are_read() {
    let two = get(&data("two-sockets.xml"));
    assert_eq!(two.hz, 250);
    assert_eq!(shape(&data("two-sockets.xml")), [2, 2, 2, 4, 8]);
    assert_eq!(two.topology.siblings(1), [1, 5]);
    let cpu = &two.topology.cpus[0];
    assert_eq!((cpu.l2_bytes, cpu.llc_bytes), (1 << 20, 8 << 20));
}

#[test]
fn offline_cpus_are_ignored() {
    let definition = define(&data("offline.xml"), &[]).unwrap();
    assert_eq!(definition.spec.topology.nr_cpus(), 7);
    assert_eq!(definition.spec.topology.siblings(3), [3]);
    assert_eq!(
        definition.notes,
        ["1 CPU is ignored, because it is offline or disallowed; the others are renumbered"]
    );
}

#[test]
fn distances_and_cpu_kinds_are_read_from_xml() {
    let hybrid = define(&data("distances-kinds.xml"), &[]).unwrap();
    let t = &hybrid.spec.topology;
    assert_eq!(t.node_distances, [[10, 17], [17, 10]]);
    assert_eq!((t.cpus[0].capacity, t.cpus[2].capacity), (1024, 576));
    assert!(
        hybrid.notes[0].starts_with("capacities are estimated"),
        "{:?}",
        hybrid.notes
    );
    let t = get(&data("big-little.xml")).topology;
    assert_eq!((t.cpus[1].capacity, t.cpus[3].capacity), (1024, 446));
}

#[test]
fn caches_and_memory_may_be_uneven() {
    // The L3 is shared by only the first two cores, and one package has no memory.
    assert_eq!(shape(&data("uneven.xml")), [2, 2, 3, 4, 4]);
    let definition = define(&data("uneven.xml"), &[]).unwrap();
    let t = &definition.spec.topology;
    assert_eq!(t.llcs, [vec![0, 1], vec![2], vec![3]]);
    assert_eq!((t.cpus[0].llc_bytes, t.cpus[2].llc_bytes), (4 << 20, 512 << 10));
    assert_eq!(t.nodes, [vec![0, 1], vec![2, 3]]);
}

#[test]
fn the_host_can_be_loaded() {
    let host = get("host");
    assert!(host.topology.nr_cpus() >= 1);
    assert!((10..=10_000).contains(&host.hz));
}

/// Compares the loaded host with the topology that lstopo reads from /sys. Then checks that lstopo
/// reads the same topology from the XML that `machine` writes.
#[test]
fn the_host_equals_what_lstopo_shows() {
    let lstopo = |arguments: &[&str]| {
        let output = std::process::Command::new("lstopo").args(arguments).output();
        output.ok().filter(|output| output.status.success())
    };
    let Some(output) = lstopo(&["--of", "xml", "--disallowed", "-"]) else {
        golden::skip!("lstopo (package hwloc) is not installed");
        return;
    };
    let shape = |topology: machine::Topology| format!("{:?} {:?}", topology.cpus, topology.node_distances);
    let read = |xml: &str| shape(machine::from_xml("host.xml", xml).unwrap().spec.topology);
    let host = shape(get("host").topology);
    assert_eq!(host, read(std::str::from_utf8(&output.stdout).unwrap()));
    let xml = machine::host_xml().unwrap();
    assert_eq!(host, read(&xml));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("host.xml");
    std::fs::write(&path, xml).unwrap();
    let again = lstopo(&["-i", path.to_str().unwrap(), "--of", "xml", "-"]).expect("lstopo can read the XML");
    assert_eq!(host, read(std::str::from_utf8(&again.stdout).unwrap()));
}

#[test]
fn errors_say_what_is_wrong() {
    let error = |spec: &str| load(spec, &[]).unwrap_err().to_string();
    assert!(
        error("nuna16").starts_with("machine: there is no machine \"nuna16\"\n  hint: did you mean numa16? use a name")
    );
    assert!(error("whale").contains("known names: epyc-2s, hybrid, hybrid-itmt, numa16,"));
    assert!(error("node:2").contains(
        "\"node:2\" is not an hwloc synthetic machine: its last level is Node, expected pu\n  hint: write a syn"
    ));
    assert!(error("garbage:4").contains("is not an hwloc synthetic machine"));
    assert!(error("core:0 pu:1").contains("the number of objects in \"core:0\" is 0"));
    assert!(error("core:4 pu:2(indexes=0,99999)").contains("indexes=0,99999 of"));
    assert!(error("core:4 pu:2(size=3").contains("do not match"));
    assert!(error("").contains("the machine is empty"));
    assert!(error("nowhere/m.xml").starts_with("nowhere/m.xml: No such file"));
    assert!(error("nowhere/m.toml").starts_with("nowhere/m.toml: No such file"));
}

#[test]
fn machine_files_are_read() {
    let text = "description = \"d\"\nhz = 100\ntopology = \"node:2 core:2 pu:1\"\n\
        distances = [[10, 15], [16, 10]]\n\
        [[kind]]\ncpus = \"2,3\"\ncapacity = 512\n\
        [costs]\ncallback = { ns = 77, source = \"s\" }\n\
        [costs.kfuncs]\nscx_bpf_now = { ns = 9, source = \"t\" }\n";
    let d = file("machine_files", text).unwrap();
    assert_eq!((d.spec.name.as_str(), d.spec.hz), ("m", 100));
    assert_eq!(d.spec.topology.node_distances, [[10, 15], [16, 10]]);
    assert_eq!(d.spec.topology.cpus[3].capacity, 512);
    assert_eq!((d.spec.costs.callback_ns, d.spec.costs.kfuncs["scx_bpf_now"]), (77, 9));
    assert_eq!(
        (d.cost_sources.len(), d.cost_sources["kfuncs.scx_bpf_now"].as_str()),
        (2, "t")
    );
    assert_eq!(d.spec.costs.kfunc_ns, machine::Costs::default().kfunc_ns);
}

#[test]
fn a_machine_file_can_refer_to_xml() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xml_beside");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::copy(data("two-sockets.xml"), dir.join("t.xml")).unwrap();
    let head = "description = \"d\"\nhz = 250\n";
    let d = file("xml_beside", &format!("{head}topology = {{ xml = \"t.xml\" }}\n")).unwrap();
    assert_eq!(d.spec.topology.nr_cpus(), 8);
    let e = file("xml_beside", &format!("{head}topology = {{ xml = \"u.xml\" }}\n")).unwrap_err();
    assert!(e.starts_with("m.toml:3:12: u.xml: No such file"), "{e}");
    let xml = std::fs::read_to_string(data("two-sockets.xml")).unwrap();
    let inline = |xml: &str| file("xml_beside", &format!("{head}[topology]\ninline = '''\n{xml}'''\n"));
    let d = inline(&xml).unwrap();
    assert_eq!(d.spec.topology.nr_cpus(), 8);
    assert!(inline("<topology>").unwrap_err().starts_with("m.toml:4:10 (inline):"));
}

#[test]
fn placement_of_memory_is_read() {
    let costs = |keys: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"node:2 core:2 pu:1\"\n{keys}\n");
        file("memory", &text).map(|d| (d.spec.costs.flat_memory, d.spec.topology.kernel_node))
    };
    assert_eq!(costs("").unwrap(), (false, None));
    assert_eq!(costs("memory = \"first-touch\"").unwrap(), (false, None));
    assert_eq!(costs("memory = \"flat\"\nkernel_node = 1").unwrap(), (true, Some(1)));
    assert!(
        costs("memory = \"here\"")
            .unwrap_err()
            .starts_with("m.toml:4:10: unknown value 'here'")
    );
    assert!(
        costs("kernel_node = 2")
            .unwrap_err()
            .starts_with("m.toml:4:15: kernel_node is 2")
    );
}

#[test]
fn options_of_the_kernel_are_read() {
    let kernel = |keys: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"core:2 pu:1\"\n{keys}\n");
        file("kernel", &text).map(|d| d.spec.kernel)
    };
    let default = machine::KernelConfig::default();
    assert_eq!(kernel("").unwrap(), default);
    assert_eq!(kernel("preempt = \"lazy\"\nskew_tick = false").unwrap(), default);
    assert_eq!(kernel("numa_balancing = true").unwrap(), default);
    assert!(kernel("numa_balancing = false").unwrap().no_numa_balancing);
    assert_eq!(kernel("sched_cache = true").unwrap(), default);
    assert!(kernel("sched_cache = false").unwrap().no_sched_cache);
    assert_eq!(kernel("hrtick = true").unwrap(), default);
    assert!(!kernel("hrtick = false").unwrap().features.has(machine::Feature::Hrtick));
    let all = kernel("preempt = \"full\"\nskew_tick = true\nirq_time_accounting = true").unwrap();
    assert!(all.preempt_full && all.skew_tick && all.irq_time_accounting);
    let unknown = kernel("preempt = \"voluntary\"").unwrap_err();
    assert!(
        unknown.starts_with("m.toml:4:11: unknown value 'voluntary'"),
        "{unknown}"
    );
}

#[test]
fn scheduler_features_are_read() {
    let features = |keys: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"core:2 pu:1\"\n{keys}\n");
        file("features", &text).map(|d| (d.spec.kernel.features, machine::show(&d)))
    };
    let (default, text) = features("").unwrap();
    assert_eq!(default, machine::Features::default());
    assert!(!text.contains("kernel:"), "{text}");
    let (some, text) = features("sched_features = [\"NEXT_BUDDY\", \"NO_NI_RANDOM\", \"WA_BIAS\"]").unwrap();
    assert!(some.has(Feature::NextBuddy) && !some.has(Feature::NiRandom) && some.has(Feature::WaBias));
    assert_eq!(some.differences(), ["NEXT_BUDDY", "NO_NI_RANDOM"]);
    assert!(text.contains("\nkernel: NEXT_BUDDY, NO_NI_RANDOM\n"), "{text}");
    // The last name of a feature counts, also after `hrtick`.
    let keys = "hrtick = false\nsched_features = [\"LB_MIN\", \"HRTICK\", \"NO_LB_MIN\"]";
    assert_eq!(features(keys).unwrap().0, default);
    assert_eq!(
        features("hrtick = false").unwrap(),
        features("sched_features = [\"NO_HRTICK\"]").unwrap()
    );
    let (old, text) = features("newidle = \"raise-on-failure\"").unwrap();
    assert_eq!(old.differences(), ["NO_NI_RANDOM"]);
    assert!(
        text.contains("\nkernel: failed new-idle balancing raises its cost, NO_NI_RANDOM\n"),
        "{text}"
    );
    let error = |name: &str| features(&format!("sched_features = [\"LB_MIN\", \"{name}\"]")).unwrap_err();
    let unknown = error("NO_NEXT_BUDY");
    let message = "m.toml:4:29: sched_features: Linux 7.3 has no scheduler feature \"NEXT_BUDY\"";
    assert!(unknown.starts_with(message), "{unknown}");
    assert!(
        unknown.contains("did you mean NEXT_BUDDY? known are PLACE_LAG, "),
        "{unknown}"
    );
    let other = error("NO_RT_PUSH_IPI");
    let message = "m.toml:4:29: sched_features: the feature RT_PUSH_IPI of Linux is not modelled";
    assert!(other.starts_with(message), "{other}");
}

#[test]
fn background_work_is_read() {
    let noise = |keys: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"core:2 pu:1\"\n{keys}\n");
        file("noise", &text).map(|d| (d.spec.noise, machine::show(&d)))
    };
    let (off, text) = noise("").unwrap();
    assert!(off.is_none() && !text.contains("background work"));
    let (server, text) = noise("noise = \"server\"").unwrap();
    assert!(server == Some(machine::Noise::Server) && text.contains("\nbackground work: server\n"));
    let unknown = noise("noise = \"loud\"").unwrap_err();
    assert!(unknown.starts_with("m.toml:4:9: noise is \"loud\""), "{unknown}");
}

#[test]
fn placement_of_task_structs_is_read() {
    let sets = |keys: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"l2:2(size=2MiB) core:1 pu:1\"\n{keys}\n");
        file("task_structs", &text).map(|d| d.spec.topology.task_sets)
    };
    let section = |keys: &str| sets(&format!("[task_struct]\n{keys}\nways = 8"));
    let line = "line = { ns = { same = 0, core = 1, llc = 2, node = 3, remote = 4 }, source = \"s\" }";
    assert_eq!(sets(""), Ok(None));
    let found = section(&format!("apart = \"8 KiB\"\n{line}")).unwrap().unwrap();
    assert_eq!(
        (found.stride, found.ways, found.line.values()),
        (8192, 8, [0, 1, 2, 3, 4])
    );
    assert_eq!([2 << 20, 1 << 20, 1 << 12].map(|l2| found.count(l2)), [32, 16, 1]);
    let apart = section(&format!("apart = \"6 KiB\"\n{line}")).unwrap_err();
    assert!(apart.starts_with("m.toml:5:9: apart is 6144"), "{apart}");
    assert!(section("apart = \"8 KiB\"").unwrap_err().contains("line"));
    assert!(section(line).unwrap_err().contains("apart"));
}

#[test]
fn native_policies_are_read() {
    let native = |keys: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"core:2 pu:1\"\n{keys}\n");
        file("native_policies", &text).map(|d| d.spec.costs.native)
    };
    assert_eq!(native(""), Ok(false));
    assert_eq!(native("policies = \"bpf\""), Ok(false));
    assert_eq!(native("policies = \"native\""), Ok(true));
    let e = native("policies = \"fast\"").unwrap_err();
    assert!(e.starts_with("m.toml:4:12: unknown value 'fast'"), "{e}");
}

#[test]
fn groups_of_cpus_are_read() {
    let text = "description = \"d\"\nhz = 100\n\
        [[cpus]]\ncores = 2\nthreads = 2\nl2 = \"1 MiB\"\n\
        [[cpus]]\ncores = 1\npackage = 7\nnode = 3\ncapacity = 300\n";
    let t = file("groups", text).unwrap().spec.topology;
    assert_eq!(t.cores, [vec![0, 1], vec![2, 3], vec![4]]);
    assert_eq!((t.llcs.len(), t.nodes.len(), t.packages.len()), (2, 2, 2));
    assert_eq!((t.cpus[0].l2_bytes, t.cpus[4].capacity), (1 << 20, 300));
}

#[test]
fn machine_files_are_strict() {
    let head = "description = \"d\"\nhz = 100\n";
    let body = "topology = \"core:2 pu:1\"\n";
    for (text, expected) in [
        ("hz = ", "m.toml:1:6: not TOML:"),
        ("hz = 100\n", "m.toml:1:1: the key 'description' is missing"),
        (
            "description = 3\nhz = 1\n",
            "m.toml:1:15: invalid type: integer `3`, expected a string",
        ),
        (
            "description = \"d\"\nhz = 5\n",
            "m.toml:2:6: hz is 5, expected 10 to 10000",
        ),
        (
            "description = \"d\"\nhz = 1.5\n",
            "m.toml:2:6: invalid type: floating point `1.5`, expected a whole number",
        ),
        ("HEAD", "m.toml:1:1: the file has neither topology nor [[cpus]]"),
        (
            "HEADtopologie = 1\n",
            "m.toml:3:1: unknown key 'topologie'\n  hint: did you mean 'topology'?",
        ),
        (
            "HEADtopology = \"core:0 pu:1\"\n",
            "m.toml:3:12: the number of objects in \"core:0\" is 0",
        ),
        (
            "HEADtopology = \"core:2\"\n",
            "m.toml:3:12: \"core:2\" is not an hwloc synthetic machine",
        ),
        (
            "HEADtopology = { xlm = \"t\" }\n",
            "m.toml:3:14: unknown key 'xlm'\n  hint: did you mean 'xml'?",
        ),
        (
            "HEADBODY[[cpus]]\ncores = 1\n",
            "m.toml:4:1: the file has both topology and [[cpus]]",
        ),
        (
            "HEAD[[cpus]]\ncores = 1\ncapacity = 3\n",
            "m.toml:3:1: the fastest CPU has capacity 3",
        ),
        ("HEAD[[cpus]]\nthreads = 2\n", "m.toml:3:1: the key 'cores' is missing"),
        (
            "HEAD[[cpus]]\ncores = 1\nl2 = \"1 MB\"\n",
            "m.toml:5:6: l2 \"1 MB\" is not a size\n  hint: write a size such as",
        ),
        (
            "HEAD[[cpus]]\ncores = 1\nl2 = 1280\n",
            "m.toml:5:6: '1280' has no unit: write a text with B, KiB, MiB or GiB, for example \"1280 KiB\"",
        ),
        (
            "HEAD[[cpus]]\ncores = 1\nl2 = \"1280\"\n",
            "m.toml:5:6: l2 \"1280\" is not a size\n  hint: write a size such as \"32 KiB\" or \"8 MiB\"",
        ),
        (
            "HEAD[[cpus]]\ncores = 8000\nthreads = 2\n",
            "m.toml:4:9: the machine has more than 8192 CPUs, the maximum of Linux on x86 (NR_CPUS)",
        ),
        (
            "HEAD[[cpus]]\ncores = 1\nllc = 0\n[[cpus]]\ncores = 1\nllc = 0\npackage = 1\n",
            "m.toml:8:7: llc 0 is in two packages",
        ),
        (
            "HEADBODYdistances = [[10, 20]]\n",
            "m.toml:4:14: found 2 distances, but the machine has 1 nodes",
        ),
        (
            "HEADBODYdistances = [[11]]\n",
            "m.toml:4:15: the distance from node 0 to node 0 is 11",
        ),
        (
            "HEADBODY[[kind]]\ncpus = \"0-2\"\ncapacity = 5\n",
            "m.toml:5:8: CPUs 0-2 of a machine with CPUs 0-1",
        ),
        (
            "HEADBODY[costs]\ncalback = { ns = 1, source = \"s\" }\n",
            "m.toml:5:1: unknown key 'calback'\n  hint: did you mean 'callback'?",
        ),
        (
            "HEADBODY[costs]\ncallback = { ns = 1 }\n",
            "m.toml:5:12: the key 'source' is missing\n  hint: add a source",
        ),
        (
            "HEADBODY[costs]\ncallback = { ns = 1, source = \" \" }\n",
            "m.toml:5:31: the source is empty",
        ),
        (
            "HEADBODY[costs]\ncallback = { ps = 1, source = \"s\" }\n",
            "m.toml:5:14: unknown key 'ps'",
        ),
        (
            "HEADBODY[costs]\ncallback = 7\n",
            "m.toml:5:12: invalid type: integer `7`, expected a table",
        ),
        (
            "HEADBODY[costs]\ncallback = { ns = -1, source = \"s\" }\n",
            "m.toml:5:19: invalid value: integer `-1`, expected a whole number",
        ),
        (
            "HEADBODY[costs]\ncache_line = { ns = { same = 1 }, source = \"s\" }\n",
            "m.toml:5:21: the key 'core' is missing",
        ),
        (
            "HEADBODY[costs]\nmessage = { ns = 1, source = \"s\" }\n",
            "m.toml:5:1: unknown key 'message'\n  hint: the cost of a message depends on the kind of channel",
        ),
        (
            "HEADBODY[costs.channel]\npipes = { send_ns = 1, recv_ns = 1, source = \"s\" }\n",
            "m.toml:5:1: unknown key 'pipes'\n  hint: did you mean 'pipe'?",
        ),
        (
            "HEADBODY[costs.channel]\npipe = { send_ns = 1, source = \"s\" }\n",
            "m.toml:5:8: the key 'recv_ns' is missing",
        ),
        (
            "HEADBODY[costs.channel]\npipe = { send_ns = 1, recv_ns = 1 }\n",
            "m.toml:5:8: the key 'source' is missing\n  hint: add a source",
        ),
        (
            "HEADBODY[costs.channel]\npipe = { send = 1, recv_ns = 1, source = \"s\" }\n",
            "m.toml:5:10: unknown key 'send'",
        ),
    ] {
        let text = text.replace("HEAD", head).replace("BODY", body);
        let e = file("strict", &text).expect_err(&text);
        assert!(e.starts_with(expected), "{text}\n{e}\n{expected}");
    }
}

#[test]
fn carriage_returns_in_xml_are_white_space() {
    for file in ["offline.xml", "two-sockets.xml"] {
        let text = std::fs::read_to_string(data(file)).unwrap();
        let shape = |text: &str| format!("{:?}", machine::from_xml("m.xml", text).unwrap().spec.topology);
        for changed in [
            text.replace('\n', "\r\n"),
            text.replace(" nodeset=", "\r nodeset="),
            text.replace(" gp_index=", " \rgp_index="),
        ] {
            assert_eq!(shape(&changed), shape(&text), "{file}");
        }
    }
}

#[test]
fn threads_of_a_core_slow_each_other_as_the_file_says() {
    let file = |topology: &str, speed: &str| {
        let text = format!(
            "description = \"d\"\nhz = 100\ntopology = \"{topology}\"\n\
             smt_throughput = {{ speed = {speed}, source = \"a book\" }}\n"
        );
        file("smt", &text)
    };
    let definition = file("core:2 pu:2", "[1, 0.62]").unwrap();
    assert_eq!(definition.spec.smt_throughput, [1024, 635]);
    assert_eq!(definition.cost_sources["smt_throughput"], "a book");
    assert!(machine::show(&definition).contains("1: 1.00 2: 0.62\n    a book\n"));
    assert_eq!(
        file("core:1 pu:4", "[1.0, 1.0, 0.5, 0.001]")
            .unwrap()
            .spec
            .smt_throughput[2..],
        [512, 1]
    );
    assert_eq!(file("core:4 pu:1", "[1.0]").unwrap().spec.smt_throughput, [1024]);
    for (topology, speed, column, message) in [
        (
            "core:2 pu:2",
            "[1.0]",
            28,
            "found 1 smt_throughput speeds, but a core has up to 2 threads",
        ),
        (
            "core:2 pu:1",
            "[1.0, 0.6]",
            28,
            "found 2 smt_throughput speeds, but a core has up to 1 threads",
        ),
        (
            "core:2 pu:2",
            "[0.9, 0.6]",
            29,
            "speed 1 of smt_throughput is 0.9, expected 1.0",
        ),
        (
            "core:1 pu:3",
            "[1.0, 0.6, 0.7]",
            39,
            "speed 3 of smt_throughput is 0.7, expected 0.001 to 0.6",
        ),
        (
            "core:2 pu:2",
            "[1.0, 1.5]",
            34,
            "speed 2 of smt_throughput is 1.5, expected 0.001 to 1.0",
        ),
        ("core:2 pu:2", "[1.0, 0]", 34, "is 0.0, expected 0.001"),
        ("core:2 pu:2", "[1.0, nan]", 34, "is NaN, expected 0.001"),
        ("core:2 pu:2", "[1.0, \"a\"]", 34, "expected f64"),
    ] {
        let error = file(topology, speed).unwrap_err();
        assert!(error.starts_with(&format!("m.toml:4:{column}: ")), "{speed}: {error}");
        assert!(error.contains(message), "{speed}: {error}");
    }
}

#[test]
fn turns_of_emulated_cpus_are_read_and_checked() {
    let file = |turns: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"core:2 pu:1\"\nturns = {turns}\n");
        file("turns", &text)
    };
    let definition = file("{ us = 12, source = \"a book\" }").unwrap();
    assert_eq!(definition.spec.turn_ns, 12_000);
    assert!(machine::show(&definition).contains("the CPUs run in turn, for at most 12 us each\n    a book\n"));
    for (turns, message) in [
        ("{ us = 0, source = \"a\" }", "us is 0, expected 1 to 100000"),
        ("{ us = 12 }", "source"),
        ("12", "expected { us = 12, source = \"...\" }"),
    ] {
        let error = file(turns).unwrap_err();
        assert!(error.starts_with("m.toml:4:"), "{turns}: {error}");
        assert!(error.contains(message), "{turns}: {error}");
    }
}

#[test]
fn a_machine_whose_source_has_no_speeds_gets_the_default() {
    for (machine, expected) in [
        ("core:8 pu:2", &[1024, 635][..]),
        ("node:2 core:4 pu:1", &[1024]),
        ("core:1 pu:4", &[1024, 635, 474, 394]),
    ] {
        assert_eq!(get(machine).smt_throughput, expected, "{machine}");
    }
    let text = "description = \"d\"\nhz = 100\ntopology = \"core:2 pu:2\"\n";
    let definition = file("smt-default", text).unwrap();
    assert_eq!(definition.spec.smt_throughput, [1024, 635]);
    assert!(machine::show(&definition).contains("default; estimate: each doubling"));
}

#[test]
fn idle_states_are_read_and_checked() {
    let state = |name: &str, exit: u32, residency: u32, polling: bool| {
        format!(
            "[[idle_state]]\nname = \"{name}\"\nexit_us = {exit}\nresidency_us = {residency}\npolling = {polling}\n\
             source = \"a table\"\n"
        )
    };
    let file = |keys: &str, rest: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"core:2 pu:1\"\n{keys}\n{rest}");
        file("idle", &text)
    };
    let states = [
        state("POLL", 0, 0, true),
        state("C1", 2, 3, true),
        state("C6", 133, 600, false),
    ]
    .concat();
    let definition = file("", &states).unwrap();
    let cpuidle = &definition.spec.cpuidle;
    assert_eq!((cpuidle.governor, cpuidle.states.len()), (Governor::Menu, 3));
    let c6 = &cpuidle.states[2];
    assert_eq!(
        (c6.exit_ns, c6.residency_ns, c6.polling, c6.busy),
        (133_000, 600_000, false, false)
    );
    assert!(cpuidle.states[0].busy && !cpuidle.states[1].busy);
    assert_eq!(definition.cost_sources["idle_state.C6"], "a table");
    let shown = machine::show(&definition);
    assert!(shown.contains("  C1    exit 2 us, residency 3 us, polling\n") && !shown.contains("idle_exit"));
    // Without a governor, CPUs enter the first state in which they do not poll.
    let off = file("cpuidle = \"off\"", &states).unwrap().spec.cpuidle;
    assert_eq!(off.used(1000)[0].name, "C1");
    let poll = file("cpuidle = \"poll\"", "").unwrap().spec.cpuidle;
    assert!(poll.used(1000)[0].busy);
    let halt = file("", "").unwrap().spec.cpuidle;
    assert_eq!((halt.used(1000)[0].exit_ns, halt.used(1000)[0].polling), (1000, false));
    let twice = [state("C1", 1, 1, true), state("C1", 2, 2, true)].concat();
    let unordered = [state("C6", 133, 600, true), state("C1", 2, 2, true)].concat();
    let both = format!("{states}[costs]\nidle_exit = {{ ns = 5, source = \"s\" }}\n");
    for (keys, rest, message) in [
        (
            "cpuidle = \"teo\"",
            states.as_str(),
            "expected \"menu\", \"off\", \"poll\"",
        ),
        ("cpuidle = \"menu\"", "", "there are no idle states"),
        ("", &state("POLL", 0, 0, true), "CPUs poll in all idle states"),
        ("", &twice, "the name \"C1\" of an idle state is empty or not unique"),
        (
            "",
            &unordered,
            "idle state C1 comes after a state with a longer residency",
        ),
        ("", &both, "the file has both idle states and the cost idle_exit"),
    ] {
        let error = file(keys, rest).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn an_l2_with_too_many_sets_is_refused() {
    let error = file(
        "everything",
        "hz = 100\ndescription = \"m\"\ntopology = \"pack:1 l2:1(size=4194304TiB) core:2 pu:1\"\n[task_struct]\napart = \"8 KiB\"\nways = 4\n\
         line = { ns = { same = 0, core = 1, llc = 1, node = 1, remote = 1 }, source = \"estimate: none\" }\n",
    )
    .unwrap_err();
    assert!(
        error.contains("sets for task_structs") && error.contains("at most 4096"),
        "{error}"
    );
}

#[test]
fn a_file_sets_the_costs_of_some_kinds_of_channels() {
    let text = "description = \"d\"\nhz = 250\ntopology = \"core:2 pu:1\"\n[costs.channel]\n\
                pipe = { send_ns = 7, recv_ns = 8, byte_ps = 90, source = \"a\" }\n\
                futex = { send_ns = 5, recv_ns = 6, source = \"b\" }\n";
    let definition = machine::from_toml("m", text).expect("the machine file is valid");
    let channel = definition.spec.costs.channel;
    let row = |send_ns, recv_ns, byte_ps| machine::MessageCosts {
        send_ns,
        recv_ns,
        byte_ps,
        ..machine::MessageCosts::default()
    };
    assert_eq!((channel.pipe, channel.futex), (row(7, 8, 90), row(5, 6, 0)));
    let default = machine::Channels::default();
    assert_eq!(channel.unix_stream, default.unix_stream);
    assert_eq!(definition.cost_sources["channel.pipe"], "a");
    let shown = machine::show(&definition);
    assert!(
        shown.contains("channel.pipe           send 7, recv 8 ns, 90 ps per byte\n"),
        "{shown}"
    );
    assert!(shown.contains("default; assumption: 2025 cycles"), "{shown}");
}

#[test]
fn frequencies_are_read_and_checked() {
    let file = |keys: &str, rest: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"pack:2 core:2 pu:2\"\n{keys}\n{rest}");
        file("frequency", &text)
    };
    let section = |keys: &str| format!("[frequency]\n{keys}\nsource = \"a table\"\n");
    let definition = file(
        "turbo = { speed = [1.0, 0.75], source = \"a data sheet\" }",
        &section("governor = \"schedutil\"\ndomain = \"package\"\ntransition_us = 20"),
    )
    .unwrap();
    let frequency = &definition.spec.frequency;
    assert_eq!(
        *frequency,
        machine::Frequency {
            governor: FrequencyGovernor::Schedutil,
            domain: FrequencyDomain::Package,
            rate_limit_ns: 30_000,
            transition_ns: 20_000,
            turbo: vec![1024, 768],
        }
    );
    let shown = machine::show(&definition);
    assert!(
        shown.contains(
            "frequency governor schedutil, one frequency per package, rate limit 30 us, transition 20 us\n    a table\n"
        ) && shown.contains("highest frequency by active cores of the package: 1: 1.00 2: 0.75\n    a data sheet\n"),
        "{shown}"
    );
    let schedutil = file("", &section("governor = \"schedutil\"")).unwrap().spec.frequency;
    assert_eq!((schedutil.rate_limit_ns, schedutil.transition_ns), (1_000_000, 0));
    assert_eq!(file("", "").unwrap().spec.frequency, machine::Frequency::default());
    for (keys, rest, message) in [
        ("", section("governor = \"scedutil\""), "did you mean 'schedutil'?"),
        (
            "",
            section("governor = \"ondemand\""),
            "known are performance, schedutil",
        ),
        ("", section("govenor = \"schedutil\""), "did you mean 'governor'?"),
        (
            "",
            section("governor = \"schedutil\"\ndomain = \"socket\""),
            "known are core, llc, package",
        ),
        (
            "",
            section("governor = \"schedutil\"\nrate_limit_us = 1000001"),
            "expected 0 to 1000000",
        ),
        (
            "",
            section("governor = \"performance\"\nrate_limit_us = 5"),
            "only the governor \"schedutil\"",
        ),
        (
            "",
            "[frequency]\ngovernor = \"performance\"".to_owned(),
            "'source' is missing",
        ),
        (
            "turbo = { speed = [1.0], source = \"s\" }",
            String::new(),
            "a package has up to 2 cores",
        ),
        (
            "turbo = { speed = [1.0, 1.1], source = \"s\" }",
            String::new(),
            "speed 2 of turbo is 1.1",
        ),
        (
            "turbo = { speed = [0.9, 0.9], source = \"s\" }",
            String::new(),
            "expected 1.0",
        ),
        (
            "turbo = { speed = [1.0, 0.9], source = \"\" }",
            String::new(),
            "the source is empty",
        ),
    ] {
        let error = file(keys, &rest).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn priorities_and_unknown_capacities_are_read_and_checked() {
    let groups = |first: &str, second: &str| {
        let text = format!(
            "description = \"d\"\nhz = 100\nasym_capacity = false\n[[cpus]]\ncores = 1\nthreads = 2\nllc = 0\n{first}\n\
             [[cpus]]\ncores = 2\nllc = 0\ncapacity = 600\n{second}\n"
        );
        file("itmt", &text)
    };
    let definition = groups("priority = 47", "priority = 35").unwrap();
    let spec = &definition.spec;
    assert_eq!(spec.priorities, [47, 47, 35, 35]);
    assert_eq!(spec.speeds, [1024, 1024, 600, 600]);
    assert!(spec.topology.cpus.iter().all(|cpu| cpu.capacity == 1024));
    assert_eq!((spec.speed(0), spec.speed(3)), (1024, 600));
    let shown = machine::show(&definition);
    assert!(
        shown.contains("ITMT priorities: 47 (CPUs 0-1), 35 (CPUs 2-3)\n")
            && shown.contains("speeds, which the kernel does not know: 1024 (CPUs 0-1), 600 (CPUs 2-3)\n"),
        "{shown}"
    );
    let kinds = |kinds: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"core:4 pu:1\"\n{kinds}");
        file("itmt", &text)
    };
    let spec = kinds("[[kind]]\ncpus = \"0-2\"\npriority = 1\n[[kind]]\ncpus = \"3\"\npriority = 2\n");
    let spec = spec.unwrap().spec;
    assert_eq!((spec.priorities, spec.speeds), (vec![1, 1, 1, 2], vec![]));
    let none = kinds("").unwrap().spec;
    assert!(none.priorities.is_empty());
    for (result, message) in [
        (
            groups("priority = 47", ""),
            "CPU 2 has no priority, but other CPUs have one",
        ),
        (
            groups("priority = 0", "priority = 1"),
            "priority is 0, expected 1 to 65535",
        ),
        (groups("prioriy = 1", ""), "did you mean 'priority'?"),
        (kinds("[[kind]]\ncpus = \"0\"\n"), "the [[kind]] sets nothing"),
        (kinds("[[kind]]\ncpus = \"0\"\npriority = 3\n"), "CPU 1 has no priority"),
    ] {
        let error = result.unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn cpus_without_a_tick_are_read_and_checked() {
    let file = |cpus: &str| {
        let text = format!("description = \"d\"\nhz = 100\ntopology = \"core:4 pu:1\"\nnohz_full = {cpus}\n");
        file("nohz", &text)
    };
    let definition = file("\"3,1-2\"").unwrap();
    assert_eq!(definition.spec.nohz_full, [1, 2, 3]);
    let shown = machine::show(&definition);
    assert!(
        shown.contains("no tick while they run one task (nohz_full): CPUs 1-3\n"),
        "{shown}"
    );
    for (cpus, message) in [
        ("\"0-3\"", "all CPUs are in nohz_full"),
        ("\"1-4\"", "4"),
        ("\"x\"", "m.toml:4:13: "),
        ("3", "string"),
    ] {
        let error = file(cpus).unwrap_err();
        assert!(error.contains(message), "{cpus}: {error}");
    }
}
