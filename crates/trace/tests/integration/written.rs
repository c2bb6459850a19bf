// SPDX-License-Identifier: GPL-2.0-only
//! Writes a short recording in each format that windtunnel reads. The tests of the readers use
//! these files, and so does the crate attack, which damages them.

use std::io::Write;

/// An event of the recording.
pub struct Event {
    pub time: u64,
    pub cpu: u32,
    pub in_interrupt: bool,
    /// Pid of the running task.
    pub pid: u32,
    pub kind: EventKind,
}

pub enum EventKind {
    Switch { state: u32, next: u32 },
    Waking { pid: u32, target: u32 },
    Migrate { pid: u32, from: u32, to: u32 },
    Fork { child: u32 },
    Exit,
}

/// State bits of a sleeping and of a dead task.
const SLEEPS: u32 = 1;
const DEAD: u32 = 0x20;

/// Returns the events. All names of a task with pid n are `task n`.
pub fn events() -> Vec<Event> {
    let event = |time, cpu, pid, kind| Event {
        time,
        cpu,
        in_interrupt: false,
        pid,
        kind,
    };
    let switch = |state, next| EventKind::Switch { state, next };
    let mut waking = event(5000, 0, 0, EventKind::Waking { pid: 7, target: 0 });
    waking.in_interrupt = true;
    let mut events = vec![
        event(1000, 0, 7, switch(SLEEPS, 0)),
        event(1100, 1, 8, EventKind::Fork { child: 9 }),
        event(2000, 1, 8, switch(0, 9)),
        waking,
        event(6000, 0, 0, switch(0, 7)),
    ];
    // Readers refuse recordings of which more than a tenth of the switches is missing.
    for time in (7000..17_000).step_by(2000) {
        events.push(event(time, 0, 7, switch(0, 6)));
        events.push(event(time + 1000, 0, 6, switch(0, 7)));
    }
    events.extend([
        // More than 27 bits of ns later.
        event(1_000_000_000, 1, 9, EventKind::Waking { pid: 7, target: 0 }),
        event(1_000_000_500, 1, 9, EventKind::Migrate { pid: 8, from: 1, to: 0 }),
        event(1_000_001_000, 1, 9, EventKind::Exit),
        event(1_000_002_000, 1, 9, switch(DEAD, 0)),
    ]);
    events
}

fn name(pid: u32) -> String {
    match pid {
        0 => "swapper".into(),
        pid => format!("task {pid}"),
    }
}

/// Returns the text of `trace-cmd report`.
pub fn text() -> Vec<u8> {
    let mut text = "cpus=2\n".to_owned();
    for event in events() {
        let flags = if event.in_interrupt { "d.h2" } else { "d..2" };
        let (seconds, ns) = (event.time / 1_000_000_000, event.time % 1_000_000_000);
        let task = |pid| format!("comm={} pid={pid} prio=120", name(pid));
        let fields = match event.kind {
            EventKind::Switch { state, next } => format!(
                "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={next} next_prio=120",
                name(event.pid),
                event.pid,
                name(next)
            ),
            EventKind::Waking { pid, target } => format!("sched_waking: {} target_cpu={target:03}", task(pid)),
            EventKind::Migrate { pid, from, to } => {
                format!("sched_migrate_task: {} orig_cpu={from} dest_cpu={to}", task(pid))
            }
            EventKind::Fork { child } => format!(
                "sched_process_fork: comm=x pid={} child_comm={} child_pid={child}",
                event.pid,
                name(child)
            ),
            EventKind::Exit => format!("sched_process_exit: {}", task(event.pid)),
        };
        let (comm, pid, cpu) = (name(event.pid), event.pid, event.cpu);
        text += &format!("{comm}-{pid} [{cpu:03}] {flags} {seconds}.{ns:09}: {fields}\n");
    }
    text.into_bytes()
}

/// Byte order and size of a long of the recorded machine.
#[derive(Clone, Copy)]
pub struct Arch {
    pub big: bool,
    pub long: usize,
}

pub const X86: Arch = Arch { big: false, long: 8 };
pub const POWERPC: Arch = Arch { big: true, long: 4 };

impl Arch {
    /// Returns a number of this many bytes.
    fn number(self, bytes: usize, value: u64) -> Vec<u8> {
        match self.big {
            false => value.to_le_bytes()[..bytes].to_vec(),
            true => value.to_be_bytes()[8 - bytes..].to_vec(),
        }
    }
}

struct Field {
    declaration: &'static str,
    size: usize,
}

const IDS: [(&str, u64); 5] = [
    ("sched_switch", 301),
    ("sched_waking", 302),
    ("sched_migrate_task", 303),
    ("sched_process_fork", 304),
    ("sched_process_exit", 305),
];

/// Returns the fields of an event after those that all events have.
fn fields(event: &str, arch: Arch) -> Vec<Field> {
    let field = |declaration, size| Field { declaration, size };
    match event {
        "sched_switch" => vec![
            field("char prev_comm[16]", 16),
            field("pid_t prev_pid", 4),
            field("int prev_prio", 4),
            field("long prev_state", arch.long),
            field("char next_comm[16]", 16),
            field("pid_t next_pid", 4),
            field("int next_prio", 4),
        ],
        "sched_process_fork" => vec![field("__data_loc char[] child_comm", 4), field("pid_t child_pid", 4)],
        "sched_process_exit" => vec![field("char comm[16]", 16), field("pid_t pid", 4)],
        _ => {
            let mut fields = vec![field("char comm[16]", 16), field("pid_t pid", 4), field("int prio", 4)];
            match event {
                "sched_waking" => fields.push(field("int target_cpu", 4)),
                _ => fields.extend([field("int orig_cpu", 4), field("int dest_cpu", 4)]),
            }
            fields
        }
    }
}

/// Returns the text of an event's `format` file.
fn format(event: &str, id: u64, arch: Arch) -> String {
    let mut text = format!(
        "name: {event}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let mut offset = 8;
    for Field { declaration, size } in fields(event, arch) {
        text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:1;\n");
        offset += size;
    }
    text + "\nprint fmt: \"\"\n"
}

/// Returns an event as it is in the ring buffer.
fn data(event: &Event, arch: Arch) -> Vec<u8> {
    let id = match event.kind {
        EventKind::Switch { .. } => 0,
        EventKind::Waking { .. } => 1,
        EventKind::Migrate { .. } => 2,
        EventKind::Fork { .. } => 3,
        EventKind::Exit => 4,
    };
    let mut data = arch.number(2, IDS[id].1);
    data.extend([if event.in_interrupt { 8 } else { 0 }, 0]);
    let number = |data: &mut Vec<u8>, size, value: u32| data.extend(arch.number(size, value.into()));
    let comm = |data: &mut Vec<u8>, pid| {
        let end = data.len() + 16;
        data.extend(name(pid).as_bytes());
        data.resize(end, 0);
    };
    number(&mut data, 4, event.pid);
    match event.kind {
        EventKind::Switch { state, next } => {
            comm(&mut data, event.pid);
            number(&mut data, 4, event.pid);
            number(&mut data, 4, 120);
            number(&mut data, arch.long, state);
            comm(&mut data, next);
            number(&mut data, 4, next);
            number(&mut data, 4, 120);
        }
        EventKind::Waking { pid, target } => {
            comm(&mut data, pid);
            [pid, 120, target].iter().for_each(|&value| number(&mut data, 4, value));
        }
        EventKind::Migrate { pid, from, to } => {
            comm(&mut data, pid);
            [pid, 120, from, to]
                .iter()
                .for_each(|&value| number(&mut data, 4, value));
        }
        EventKind::Fork { child } => {
            number(&mut data, 4, 8 << 16 | 16);
            number(&mut data, 4, child);
            data.extend(name(child).as_bytes());
            data.resize(24, 0);
        }
        EventKind::Exit => {
            comm(&mut data, event.pid);
            number(&mut data, 4, event.pid);
        }
    }
    data
}

pub const PAGE: usize = 4096;

/// Returns the page of one CPU.
fn page(cpu: u32, arch: Arch) -> Vec<u8> {
    let events: Vec<Event> = events().into_iter().filter(|event| event.cpu == cpu).collect();
    let mut time = events[0].time;
    let mut page = arch.number(8, time);
    let mut content = Vec::new();
    let header = |kind: u64, delta: u64| {
        let word = if arch.big {
            kind << 27 | delta
        } else {
            delta << 5 | kind
        };
        arch.number(4, word)
    };
    for event in &events {
        let mut delta = event.time - time;
        time = event.time;
        if delta >= 1 << 27 {
            content.extend(header(30, delta & 0x07ff_ffff));
            content.extend(arch.number(4, delta >> 27));
            delta = 0;
        }
        let data = data(event, arch);
        content.extend(header(data.len() as u64 / 4, delta));
        content.extend(data);
    }
    page.extend(arch.number(arch.long, content.len() as u64));
    page.extend(content);
    page.resize(PAGE, 0);
    page
}

/// Returns a text with the length before it, as a number of `size` bytes.
fn sized(arch: Arch, size: usize, text: &[u8]) -> Vec<u8> {
    let mut bytes = arch.number(size, text.len() as u64);
    bytes.extend(text);
    bytes
}

/// Returns the magic number, the version and the form of numbers.
fn begin(version: &str, arch: Arch) -> Vec<u8> {
    let mut bytes = b"\x17\x08\x44tracing".to_vec();
    bytes.extend(version.as_bytes());
    bytes.extend([0, u8::from(arch.big), arch.long as u8]);
    bytes.extend(arch.number(4, PAGE as u64));
    bytes
}

fn headers(arch: Arch) -> Vec<u8> {
    let long = arch.long;
    let text = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
         \tfield: char data;\toffset:{};\tsize:4080;\tsigned:1;\n",
        8 + long
    );
    [
        b"header_page\0".to_vec(),
        sized(arch, 8, text.as_bytes()),
        b"header_event\0".to_vec(),
        sized(arch, 8, b"x"),
    ]
    .concat()
}

fn formats(arch: Arch) -> Vec<u8> {
    let mut bytes = arch.number(4, 1);
    bytes.extend(b"sched\0");
    bytes.extend(arch.number(4, IDS.len() as u64));
    for (event, id) in IDS {
        bytes.extend(sized(arch, 8, format(event, id, arch).as_bytes()));
    }
    bytes
}

/// Returns the kernel's descriptions of the events.
fn descriptions(version: &str, arch: Arch) -> Vec<u8> {
    let none = arch.number(4, 0);
    let parts = [
        begin(version, arch),
        headers(arch),
        none.clone(),
        formats(arch),
        none.clone(),
        none,
    ];
    parts.concat()
}

/// Returns a trace.dat file of version 6.
pub fn trace_dat_6(arch: Arch) -> Vec<u8> {
    let mut file = descriptions("6", arch);
    file.extend(sized(arch, 8, b"7 task 7\n"));
    file.extend(arch.number(4, 2));
    file.extend(b"options  \0");
    // The date, and the end of the options.
    file.extend([arch.number(2, 1), sized(arch, 4, b"1"), arch.number(2, 0)].concat());
    file.extend(b"flyrecord\0");
    let first = file.len() + 2 * 16;
    for cpu in 0..2 {
        file.extend(arch.number(8, (first + cpu * PAGE) as u64));
        file.extend(arch.number(8, PAGE as u64));
    }
    file.extend([page(0, arch), page(1, arch)].concat());
    file
}

/// Returns bytes compressed by this method: "zlib", "zstd", "gzip" or "none".
pub fn compress(method: &str, bytes: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::default();
    match method {
        "zlib" => {
            let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), level);
            writer.write_all(bytes).expect("a Vec can be written");
            writer.finish().expect("a Vec can be written")
        }
        "gzip" => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), level);
            writer.write_all(bytes).expect("a Vec can be written");
            writer.finish().expect("a Vec can be written")
        }
        "zstd" => ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest),
        _ => bytes.to_vec(),
    }
}

/// Returns a trace.dat file of version 7 whose sections are compressed by this method.
pub fn trace_dat_7(method: &str) -> Vec<u8> {
    let arch = X86;
    let packed = method != "none";
    let chunk = |content: &[u8]| {
        let packed = compress(method, content);
        let sizes = [
            arch.number(4, packed.len() as u64),
            arch.number(4, content.len() as u64),
        ];
        [sizes.concat(), packed].concat()
    };
    let section = |id: u64, content: &[u8]| {
        let content = if packed { chunk(content) } else { content.to_vec() };
        let header = [arch.number(2, id), arch.number(2, u64::from(packed)), arch.number(4, 0)];
        [header.concat(), sized(arch, 8, &content)].concat()
    };
    let mut file = begin("7", arch);
    file.extend(format!("{method}\0\x31\0").bytes());
    let place = file.len();
    file.extend(arch.number(8, 0));
    let mut options = Vec::new();
    for (id, content) in [
        (16, headers(arch)),
        (17, arch.number(4, 0)),
        (18, formats(arch)),
        (21, sized(arch, 8, b"7 task 7\n")),
    ] {
        options.extend([arch.number(2, id), sized(arch, 4, &arch.number(8, file.len() as u64))].concat());
        file.extend(section(id, &content));
    }
    options.extend([arch.number(2, 8), sized(arch, 4, &arch.number(4, 2))].concat());
    let mut buffer = arch.number(8, file.len() as u64);
    file.extend(
        [
            arch.number(2, 3),
            arch.number(2, u64::from(packed)),
            arch.number(4, 0),
            arch.number(8, 0),
        ]
        .concat(),
    );
    buffer.extend(b"\0local\0");
    buffer.extend([arch.number(4, PAGE as u64), arch.number(4, 2)].concat());
    for cpu in 0..2 {
        let page = page(cpu, arch);
        let (count, content) = match packed {
            true => (arch.number(4, 1), chunk(&page)),
            false => (Vec::new(), page),
        };
        let (at, size) = (arch.number(8, file.len() as u64), arch.number(8, content.len() as u64));
        buffer.extend([arch.number(4, cpu.into()), at, size].concat());
        file.extend([count, content].concat());
    }
    options.extend([arch.number(2, 3), sized(arch, 4, &buffer)].concat());
    options.extend([arch.number(2, 0), sized(arch, 4, &arch.number(8, 0))].concat());
    let at = arch.number(8, file.len() as u64);
    file[place..place + 8].copy_from_slice(&at);
    file.extend(section(0, &options));
    file
}

/// Bits of sample_type: TID, TIME, CPU, PERIOD, CALLCHAIN, RAW and IDENTIFIER.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 5 | 1 << 10 | 1 << 16;

fn attribute(arch: Arch) -> Vec<u8> {
    let mut bytes = [arch.number(4, 2), arch.number(4, 64)].concat();
    bytes.extend([arch.number(8, 301), arch.number(8, 1), arch.number(8, SAMPLE_TYPE)].concat());
    bytes.resize(64, 0);
    bytes
}

fn record(arch: Arch, kind: u64, content: &[u8]) -> Vec<u8> {
    let header = [
        arch.number(4, kind),
        arch.number(2, 0),
        arch.number(2, content.len() as u64 + 8),
    ];
    [header.concat(), content.to_vec()].concat()
}

/// Returns a record that says that 5 events were lost.
fn lost(arch: Arch) -> Vec<u8> {
    record(arch, 2, &[arch.number(8, 1), arch.number(8, 5)].concat())
}

fn samples(arch: Arch) -> Vec<u8> {
    let mut records = Vec::new();
    for event in events() {
        let raw = data(&event, arch);
        let words = [1, u64::from(event.pid) << 32, event.time];
        let mut content = words.map(|word| arch.number(8, word)).concat();
        content.extend([arch.number(4, event.cpu.into()), arch.number(4, 0), arch.number(8, 1)].concat());
        // A call chain of two addresses.
        content.extend([2, 0xff, 0xfe].map(|word| arch.number(8, word)).concat());
        content.extend(sized(arch, 4, &raw));
        content.resize(content.len().next_multiple_of(8), 0);
        records.extend(record(arch, 9, &content));
    }
    records
}

fn compressed(records: &[u8]) -> Vec<u8> {
    // perf flushes the blocks of a frame, but does not end it. Here, the last block is cut off.
    record(X86, 81, &compress("zstd", records))
}

/// Returns a perf.data file. `packed` compresses its records, and `loses` adds a record of lost
/// events.
pub fn perf_data(arch: Arch, packed: bool, loses: bool) -> Vec<u8> {
    let mut records = samples(arch);
    if loses {
        records.extend(lost(arch));
    }
    if packed {
        records = compressed(&records);
    }
    let tracing = descriptions("0.5", arch);
    let (attributes_at, ids_at) = (104, 104 + 80);
    let data_at = ids_at + 8;
    let features_at = data_at + records.len() as u64;
    let mut file = if arch.big {
        b"2ELIFREP".to_vec()
    } else {
        b"PERFILE2".to_vec()
    };
    // Tracing data and number of CPUs.
    let features = 1 << 1 | 1 << 7;
    let words = [
        104,
        80,
        attributes_at,
        80,
        data_at,
        records.len() as u64,
        0,
        0,
        features,
        0,
        0,
        0,
    ];
    file.extend(words.map(|word| arch.number(8, word)).concat());
    file.extend(attribute(arch));
    file.extend([ids_at, 8, 1].map(|word| arch.number(8, word)).concat());
    file.extend(records);
    let sections = [
        features_at + 32,
        tracing.len() as u64,
        features_at + 32 + tracing.len() as u64,
        8,
    ];
    file.extend(sections.map(|word| arch.number(8, word)).concat());
    file.extend(tracing);
    file.extend([arch.number(4, 2), arch.number(4, 2)].concat());
    file
}

/// Returns what perf writes to a pipe.
pub fn perf_pipe(packed: bool) -> Vec<u8> {
    let arch = X86;
    let mut tracing = descriptions("0.6", arch);
    tracing.extend(sized(arch, 8, b"7 task 7\n"));
    tracing.resize(tracing.len().next_multiple_of(8), 0);
    let mut file = b"PERFILE2".to_vec();
    file.extend(arch.number(8, 16));
    file.extend(record(arch, 64, &[attribute(arch), arch.number(8, 1)].concat()));
    file.extend(record(arch, 66, &arch.number(4, tracing.len() as u64)));
    file.extend(tracing);
    file.extend(record(
        arch,
        80,
        &[arch.number(8, 7), arch.number(4, 2), arch.number(4, 2)].concat(),
    ));
    let records = samples(arch);
    file.extend(if packed { compressed(&records) } else { records });
    file
}

/// Metadata of [`ctf_stream`], in the form of LTTng.
pub const CTF_METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := uint27_clock_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := uint64_clock_t;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
typedef integer { size = 32; align = 8; signed = true; base = 10; } int32_t;
trace {
	major = 1; minor = 8; byte_order = le;
	packet.header := struct { uint32_t magic; uint32_t stream_id; };
};
env { domain = "kernel"; tracer_name = "lttng-modules"; kernel_release = "5.4.0"; };
clock { name = monotonic; freq = 1000000000; /* Hz */ offset = 5; };
struct event_header_compact {
	enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
	variant <id> {
		struct { uint27_clock_t timestamp; } compact;
		struct { uint32_t id; uint64_clock_t timestamp; } extended;
	} v;
} align(8);
stream {
	id = 0;
	event.header := struct event_header_compact;
	packet.context := struct {
		uint64_clock_t timestamp_begin; uint64_t content_size; uint64_t packet_size;
		uint64_t events_discarded; uint32_t cpu_id;
	};
};
event { name = "sched_switch"; id = 1; stream_id = 0; fields := struct {
	integer { size = 8; align = 8; signed = 1; encoding = UTF8; } _prev_comm[16];
	int32_t _prev_tid; int32_t _prev_prio;
	enum : int32_t { "TASK_RUNNING" = 0, TASK_DEAD = 32 } _prev_state;
	integer { size = 8; align = 8; signed = 1; encoding = UTF8; } _next_comm[16];
	int32_t _next_tid; int32_t _next_prio;
}; };
event { name = "sched_waking"; id = 2; stream_id = 0; fields := struct {
	string _comm; int32_t _tid; int32_t _prio; int32_t _target_cpu;
}; };
event { name = "sched_migrate_task"; id = 3; stream_id = 0; fields := struct {
	string _comm; int32_t _tid; int32_t _prio; int32_t _orig_cpu; int32_t _dest_cpu;
}; };
event { name = "sched_process_fork"; id = 4; stream_id = 0; fields := struct {
	string _child_comm; int32_t _child_tid;
	uint32_t __ns_length; int32_t _ns[ __ns_length ];
}; };
event { name = "sched_process_exit"; id = 5; stream_id = 0; fields := struct { string _comm; int32_t _tid; }; };
event { name = "irq_handler_entry"; id = 40; stream_id = 0; fields := struct { int32_t _irq; string _name; }; };
event { name = "irq_handler_exit"; id = 41; stream_id = 0; fields := struct { int32_t _irq; }; };
"#;

/// Returns the stream of one CPU: one packet. The tracer discarded 5 events on CPU 0.
pub fn ctf_stream(cpu: u32) -> Vec<u8> {
    let le = |size, value| X86.number(size, value);
    let word = |value: u32| le(4, value.into());
    let mut content = Vec::new();
    let mut first = None;
    for event in events().into_iter().filter(|event| event.cpu == cpu) {
        let begin = *first.get_or_insert(event.time);
        // Events shortly after the packet's start have the short header.
        let header = |id: u64| match event.time - begin < 1 << 27 && id < 31 {
            true => le(4, (event.time & 0x07ff_ffff) << 5 | id),
            false => [vec![31], le(4, id), le(8, event.time)].concat(),
        };
        let string = |pid| [name(pid).as_bytes(), &[0]].concat();
        let comm = |pid| {
            let mut name = name(pid).into_bytes();
            name.resize(16, 0);
            name
        };
        // LTTng's priorities begin at -100.
        let prio = word(20);
        if event.in_interrupt {
            content.extend([header(40), word(1), b"timer\0".to_vec()].concat());
        }
        content.extend(match event.kind {
            EventKind::Switch { state, next } => {
                let prev = [header(1), comm(event.pid), word(event.pid), prio.clone(), word(state)].concat();
                [prev, comm(next), word(next), prio].concat()
            }
            EventKind::Waking { pid, target } => [header(2), string(pid), word(pid), prio, word(target)].concat(),
            EventKind::Migrate { pid, from, to } => {
                [header(3), string(pid), word(pid), prio, word(from), word(to)].concat()
            }
            EventKind::Fork { child } => [header(4), string(child), word(child), word(2), word(1), word(1)].concat(),
            EventKind::Exit => [header(5), string(event.pid), word(event.pid)].concat(),
        });
        if event.in_interrupt {
            content.extend([header(41), word(1)].concat());
        }
    }
    let discarded = if cpu == 0 { 5 } else { 0 };
    let begin = 8 + 8 * 4 + 4;
    let bits = (begin + content.len() as u64) * 8;
    let mut packet = [word(0xc1fc_1fc1), word(0)].concat();
    packet.extend(
        [
            le(8, first.unwrap_or(0)),
            le(8, bits),
            le(8, bits + 64),
            le(8, discarded),
        ]
        .concat(),
    );
    packet.extend([word(cpu), content, vec![0xee; 8]].concat());
    packet
}
