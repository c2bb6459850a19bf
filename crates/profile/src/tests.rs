// SPDX-License-Identifier: GPL-2.0-only
//! Tests of profiles on small machines: the properties of the machine in their expressions, the
//! indices of their settings, and the structs that they pass to programs as arguments.

use super::*;
use machine::MachineSpec;
use machine::{Costs, Cpu, Topology};

/// A kernel that has two enumerators and lacks a third one.
struct Kernel;

impl Enumerators for Kernel {
    fn enumerator(&self, name: &str) -> Option<i64> {
        match name {
            "SCX_OPS_ENQ_LAST" => Some(2),
            "SCX_SLICE_DFL" => Some(20_000_000),
            "SCX_OPS_BUILTIN_IDLE_PER_NODE" => Some(0),
            _ => None,
        }
    }
}

fn spec(cpus: Vec<Cpu>) -> MachineSpec {
    MachineSpec {
        name: "test".into(),
        description: String::new(),
        topology: Topology::new(cpus, Vec::new()),
        hz: 250,
        cpuperf_min: 1024,
        frequency: machine::Frequency::default(),
        priorities: Vec::new(),
        nohz_full: Vec::new(),
        speeds: Vec::new(),
        smt_throughput: vec![1024; 2],
        turn_ns: 0,
        kernel: machine::KernelConfig::default(),
        noise: None,
        cpuidle: machine::CpuIdle::default(),
        costs: Costs::default(),
    }
}

fn cpu(core: u32, thread: u32, llc: u32, node: u32, capacity: u32) -> Cpu {
    Cpu {
        core,
        thread,
        llc,
        node,
        package: node,
        capacity,
        l1d_bytes: 0,
        l2_bytes: 0,
        llc_bytes: 0,
    }
}

/// Returns a machine with two fast cores, which have two threads each, and a slow core.
fn hybrid() -> MachineSpec {
    let cpus = [(0, 0, 512), (1, 0, 1024), (0, 1, 512), (1, 1, 1024), (2, 0, 300)];
    spec(
        cpus.into_iter()
            .map(|(core, thread, capacity)| cpu(core, thread, 0, 0, capacity))
            .collect(),
    )
}

/// Returns a machine with two nodes. Each node has two LLCs, and each LLC has two cores.
fn numa() -> MachineSpec {
    spec((0..8).map(|id| cpu(id, 0, id / 2, id / 4, 1024)).collect())
}

fn all(spec: &MachineSpec, path: &str, value: &str) -> Vec<String> {
    let mut found = Vec::new();
    Setting::new(path, value)
        .each(Properties::new(spec, &Kernel), &mut |path, value| {
            found.push(format!("{path}={value}"));
            Ok::<(), ProfileError>(())
        })
        .expect("the setting can be evaluated");
    found
}

#[test]
fn expressions_use_properties_and_enumerators() {
    let spec = hybrid();
    let facts = Properties::new(&spec, &Kernel);
    let check = |text: &str, value: i64| assert_eq!(facts.value(text), Ok(value), "{text}");
    check("nr_cpus", 5);
    check("smt", 1);
    check("numa * SCX_OPS_BUILTIN_IDLE_PER_NODE | SCX_OPS_ENQ_LAST | 0x100", 0x102);
    check("-1", -1);
    check("SCX_SLICE_DFL", 20_000_000);
    check("nr_cores * hz", 750);
    check("max_capacity - min_capacity", 724);
    check("sum_capacity", 512 * 2 + 1024 * 2 + 300);
    check("max_nr_cpus_of_core * 10 + max_nr_cores_of_llc", 23);
    let error = |text: &str| match facts.value(text) {
        Err(ProfileError::Expression { error, .. }) => error,
        other => panic!("{text}: {other:?}"),
    };
    assert!(matches!(
        error("cpu"),
        ExpressionError::NeedsIndex { object: "a CPU", .. }
    ));
    assert_eq!(error("nr_cpu"), ExpressionError::UnknownName("nr_cpu".into()));
    assert_eq!(error("sizeof(x)"), ExpressionError::NoTypes);
    assert_eq!(error("has(x)"), ExpressionError::NoTypes);
}

#[test]
fn has_finds_variables_of_the_object() {
    let mut builder = bpf::btf::build::Builder::new();
    let number = builder.declare_type("u64").expect("a type");
    builder.var("kernels", number);
    let types = builder.finish();
    let spec = hybrid();
    let facts = Properties::new(&spec, &Kernel).with_types(&types);
    assert_eq!(facts.value("has(absent)"), Ok(0));
    assert_eq!(facts.value("has(kernels)"), Ok(0), "the variable is the kernel's");
}

#[test]
fn each_cpu_has_its_positions_and_sibling() {
    let spec = hybrid();
    assert_eq!(
        all(&spec, "a[cpu]", "rank"),
        ["a[0]=2", "a[1]=0", "a[2]=3", "a[3]=1", "a[4]=4"]
    );
    assert_eq!(
        all(&spec, "a[spread]", "cpu"),
        ["a[1]=0", "a[0]=1", "a[4]=2", "a[3]=3", "a[2]=4"]
    );
    assert_eq!(
        all(&spec, "a[packed]", "cpu"),
        ["a[2]=0", "a[0]=1", "a[3]=2", "a[1]=3", "a[4]=4"]
    );
    assert_eq!(
        all(&spec, "a[cpu].b", "sibling"),
        ["a[0].b=2", "a[1].b=3", "a[2].b=0", "a[3].b=1", "a[4].b=-1"]
    );
}

#[test]
fn indices_select_the_cpus_and_groups() {
    let spec = numa();
    assert_eq!(all(&spec, "a", "nr_llcs"), ["a=4"]);
    assert_eq!(all(&spec, "a[llc]", "node"), ["a[0]=0", "a[1]=0", "a[2]=1", "a[3]=1"]);
    assert_eq!(
        all(&spec, "a[node * 2][word]", "cpus_of_node"),
        ["a[0][0]=15", "a[2][0]=240"]
    );
    assert_eq!(all(&spec, "a[word]", "cpus"), ["a[0]=255"]);
    assert_eq!(all(&spec, "a[1..nr_llcs].b", "7"), ["a[1].b=7", "a[2].b=7", "a[3].b=7"]);
    assert_eq!(all(&spec, "a[node, first_of_node]", "nr_cpus_of_node").len(), 8);
    assert_eq!(
        all(&spec, "a[node][other_node]", "distance"),
        ["a[0][0]=10", "a[0][1]=20", "a[1][0]=20", "a[1][1]=10"]
    );
}

#[test]
fn pairs_are_ordered_by_distance_and_then_by_number() {
    let spec = numa();
    let near = all(&spec, "a[cpu][near]", "other_cpu");
    assert_eq!(near.len(), 64);
    let partners = |cpu: u32| -> Vec<String> {
        let mut own: Vec<_> = near
            .iter()
            .filter(|path| path.starts_with(&format!("a[{cpu}]")))
            .collect();
        own.sort();
        own.into_iter()
            .map(|path| path.split_once('=').expect("the path contains a '='").1.to_owned())
            .collect()
    };
    assert_eq!(partners(0), ["0", "1", "2", "3", "7", "6", "5", "4"]);
    assert_eq!(partners(3), ["3", "2", "1", "0", "4", "5", "6", "7"]);
    let llcs = all(&spec, "a[llc][near_llc]", "other_llc");
    assert_eq!(llcs[4..8], ["a[1][1]=0", "a[1][0]=1", "a[1][2]=2", "a[1][3]=3"]);
}

#[test]
fn a_condition_omits_instances() {
    let spec = numa();
    let setting = Setting {
        when: "other_llc != llc & other_node == node".into(),
        ..Setting::new("a[llc]", "other_llc")
    };
    let error = setting
        .each(Properties::new(&spec, &Kernel), &mut |_, _| Ok::<(), ProfileError>(()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("'other_llc' is a property of a pair"), "{error}");
    let setting = Setting {
        path: "a[llc][other_llc]".into(),
        ..setting
    };
    let mut found = Vec::new();
    let mut keep = |path: &str, _: i64| {
        found.push(path.to_owned());
        Ok::<(), ProfileError>(())
    };
    setting
        .each(Properties::new(&spec, &Kernel), &mut keep)
        .expect("the setting can be evaluated");
    assert_eq!(found, ["a[0][1]", "a[1][0]", "a[2][3]", "a[3][2]"]);
}

#[test]
fn arguments_are_laid_out_as_c_does() {
    let spec = hybrid();
    let run = Run {
        args: vec![
            "7".into(),
            "hz:u64".into(),
            Arg {
                value: "i - 1".into(),
                times: 2,
            },
        ],
        result: vec!["a".into(), "b".into(), "c".into()],
        ..Run::default()
    };
    let bytes = run.context(Properties::new(&spec, &Kernel)).unwrap();
    assert_eq!(
        bytes,
        [
            7, 0, 0, 0, 0, 0, 0, 0, 250, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0
        ]
    );
    let results = run.results(&bytes);
    assert_eq!(results, [("a".into(), 7), ("b".into(), 250), ("c".into(), -1)]);
    let facts = Properties::new(&spec, &Kernel).with_results(&results);
    assert_eq!(facts.value("b + c"), Ok(249));
}

#[test]
fn arguments_above_the_size_limit_are_refused() {
    let spec = hybrid();
    let run = |times| Run {
        program: "setup".into(),
        args: vec![Arg {
            value: "i".into(),
            times,
        }],
        ..Run::default()
    };
    assert_eq!(
        run(16383).context(Properties::new(&spec, &Kernel)).unwrap().len(),
        65532
    );
    let error = run(u32::MAX).context(Properties::new(&spec, &Kernel)).unwrap_err();
    assert_eq!(error, ProfileError::ArgumentsTooLong("setup".into()));
}

#[test]
fn a_huge_range_is_refused() {
    let spec = numa();
    for (path, count) in [
        ("a[0..9223372036854775807]", usize::MAX / 2),
        ("a[0..4000][0..4000]", 4000),
    ] {
        let set = &mut |_: &str, _| Ok::<(), ProfileError>(());
        let error = Setting::new(path, "1").each(Properties::new(&spec, &Kernel), set);
        assert_eq!(error, Err(ProfileError::RangeTooLong(count)), "{path}");
    }
}
