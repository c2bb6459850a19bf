// SPDX-License-Identifier: GPL-2.0-only
//! An assembler for the test programs of `../corpus`. Each line is one instruction in clang's
//! notation for eBPF.
//!
//! The notation has these extensions:
//!
//! - `name:` defines a label, `func name:` starts a function.
//! - `map NAME KIND KEY VALUE MAX` defines a map. `type ID SIZE` defines a type of which the
//!   program allocates objects. Both may list special fields such as `timer@8`.
//! - `r1 = map NAME` and `r1 = func NAME` load an address.
//! - `trap "text"` raises a fault.
//! - `op OP DST SRC OFF IMM` is the instruction with these numbers.

use std::collections::BTreeMap;

use bpf::image::{self, Code, Field, FieldKind, Function, Insn, LocalType, LocalTypes, MapDef};
use bpf::insn::{self, alu, atomic, jmp};

#[derive(Default)]
pub struct Program {
    pub code: Code,
    pub maps: Vec<MapDef>,
    pub types: LocalTypes,
    /// Instructions whose immediate is the address of a map, each with the index of the map.
    pub map_refs: Vec<(usize, usize)>,
}

pub fn assemble(text: &str) -> Result<Program, String> {
    let mut program = Program::default();
    let mut labels: BTreeMap<String, usize> = BTreeMap::new();
    let mut jumps = Vec::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = program.code.insns.len();
        let bad = || format!("cannot read: {line}");
        if let Some(name) = line.strip_prefix("func ").and_then(|l| l.strip_suffix(':')) {
            begin(&mut program.code, name);
            continue;
        }
        if words[0] == "map" {
            let numbers: Vec<u32> = words[3..].iter().map_while(|w| w.parse().ok()).collect();
            let fields = words[3 + numbers.len()..]
                .iter()
                .map(|w| field(w))
                .collect::<Option<_>>();
            program.maps.push(MapDef {
                name: words[1].into(),
                kind: map_kind(words[2]).ok_or_else(bad)?,
                key_size: numbers[0],
                value_size: numbers[1],
                max_entries: numbers[2],
                fields: fields.ok_or_else(bad)?,
                ..MapDef::default()
            });
            continue;
        }
        if words[0] == "type" {
            let fields = words[3..]
                .iter()
                .map(|w| field(w))
                .collect::<Option<_>>()
                .ok_or_else(bad)?;
            let (id, size) = (
                words[1].parse().map_err(|_| bad())?,
                words[2].parse().map_err(|_| bad())?,
            );
            program.types.insert(
                id,
                LocalType {
                    name: "local".into(),
                    size,
                    fields,
                },
            );
            continue;
        }
        if program.code.functions.is_empty() {
            begin(&mut program.code, "main");
        }
        if let Some(label) = line.strip_suffix(':') {
            labels.insert(label.into(), at);
            continue;
        }
        let insn = match words[0] {
            "exit" => make(insn::EXIT, 0, 0, 0, 0),
            "goto" | "gotol" | "may_goto" => {
                jumps.push((at, words[1].to_string()));
                let op = match words[0] {
                    "goto" => insn::GOTO,
                    "gotol" => insn::GOTOL,
                    _ => insn::MAY_GOTO,
                };
                make(op, 0, 0, 0, 0)
            }
            "if" => {
                jumps.push((at, words[5].to_string()));
                let (dst, wide) = register(words[1]).ok_or_else(bad)?;
                let class = if wide { insn::JMP } else { insn::JMP32 };
                let op = class | condition(words[2]).ok_or_else(bad)?;
                operand(op, dst, words[3], 0).ok_or_else(bad)?
            }
            "call" => {
                calls.push((at, words[1].to_string()));
                make(image::CALL, 0, 0, 0, 0)
            }
            "trap" => {
                program.code.traps.push(line[4..].trim().trim_matches('"').into());
                make(image::TRAP, 0, 0, 0, program.code.traps.len() as i64 - 1)
            }
            "op" => {
                let n: Vec<i64> = words[1..]
                    .iter()
                    .map(|w| number(w))
                    .collect::<Option<_>>()
                    .ok_or_else(bad)?;
                make(n[0] as u8, n[1] as u8, n[2] as u8, n[3] as i32, n[4])
            }
            "lock" | "fetch" | "xchg" | "cmpxchg" | "release" => {
                let (size, _, base, off) = memory(line).ok_or_else(bad)?;
                let (src, _) = register(words[words.len() - 1]).ok_or_else(bad)?;
                let bits = match words[words.len() - 2] {
                    "+=" => atomic::ADD,
                    "|=" => atomic::OR,
                    "&=" => atomic::AND,
                    "^=" => atomic::XOR,
                    _ => 0,
                };
                let imm = match words[0] {
                    "lock" => bits,
                    "fetch" => bits | atomic::FETCH,
                    "xchg" => atomic::XCHG,
                    "cmpxchg" => atomic::CMPXCHG,
                    _ => atomic::STORE_RELEASE,
                };
                make(insn::STX | insn::ATOMIC | size, base, src, off, imm)
            }
            first if first.starts_with("*(") => {
                let (size, _, base, off) = memory(line).ok_or_else(bad)?;
                let value = words[words.len() - 1];
                match register(value) {
                    Some((src, _)) => make(insn::STX | insn::MEM | size, base, src, off, 0),
                    None => make(
                        insn::ST | insn::MEM | size,
                        base,
                        0,
                        off,
                        number(value).ok_or_else(bad)?,
                    ),
                }
            }
            _ if words.get(1) == Some(&"=") && words[2] == "map" => {
                let map = program
                    .maps
                    .iter()
                    .position(|map| map.name == words[3])
                    .ok_or_else(bad)?;
                program.map_refs.push((at, map));
                make(image::LD_IMM64, register(words[0]).ok_or_else(bad)?.0, 0, 0, 0)
            }
            _ if words.get(1) == Some(&"=") && words[2] == "func" => {
                calls.push((at, words[3].to_string()));
                make(image::LD_IMM64, register(words[0]).ok_or_else(bad)?.0, 0, 0, 0)
            }
            _ => assignment(&words, line).ok_or_else(bad)?,
        };
        program.code.insns.push(insn);
    }
    finish(&mut program, &labels, jumps, calls)?;
    Ok(program)
}

fn begin(code: &mut Code, name: &str) {
    let start = code.insns.len();
    if let Some(last) = code.functions.last_mut() {
        last.end = start;
    }
    code.functions.push(Function {
        name: name.into(),
        start,
        end: start,
        stack: 512,
        params: None,
        is_global: false,
        is_callback: false,
        lines: Vec::new(),
    });
}

fn finish(
    program: &mut Program,
    labels: &BTreeMap<String, usize>,
    jumps: Vec<(usize, String)>,
    calls: Vec<(usize, String)>,
) -> Result<(), String> {
    let code = &mut program.code;
    let end = code.insns.len();
    code.functions.last_mut().ok_or("no instructions")?.end = end;
    for (at, label) in jumps {
        let target = labels.get(&label).ok_or_else(|| format!("no label {label}"))?;
        code.insns[at].off = *target as i32 - at as i32 - 1;
    }
    let helpers = super::world::funcs();
    for (at, name) in calls {
        let function = code.functions.iter().position(|f| f.name == name);
        let helper = helpers.iter().find(|f| f.name == name).and_then(|f| f.helper);
        if code.insns[at].op == image::LD_IMM64 {
            let index = function.ok_or_else(|| format!("no function {name}"))?;
            code.insns[at].imm = (image::FUNC_BASE + index as u64) as i64;
            continue;
        }
        (code.insns[at].src, code.insns[at].imm) = if let Some(index) = function {
            (image::CALL_FUNCTION, index as i64)
        } else if let Some(number) = helper.map(i64::from).or_else(|| number(&name)) {
            (image::CALL_HELPER, number)
        } else {
            code.kfuncs.push(name);
            (image::CALL_KFUNC, code.kfuncs.len() as i64 - 1)
        };
    }
    Ok(())
}

fn make(op: u8, dst: u8, src: u8, off: i32, imm: i64) -> Insn {
    Insn { op, dst, src, off, imm }
}

fn operand(op: u8, dst: u8, text: &str, off: i32) -> Option<Insn> {
    Some(match register(text) {
        Some((src, _)) => make(op | insn::X, dst, src, off, 0),
        None => make(op, dst, 0, off, number(text)?),
    })
}

/// Parses a register. Returns its number, and whether the operation uses all 64 bits (`r1`) or only
/// the low 32 bits (`w1`).
fn register(text: &str) -> Option<(u8, bool)> {
    let wide = text.starts_with('r');
    let number = text.strip_prefix(['r', 'w'])?.parse().ok()?;
    Some((number, wide))
}

fn number(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// Parses an access such as `*(u32 *)(r1 + 8)` anywhere in the line. Returns the size bits of the
/// opcode, whether the value is signed, the base register and the offset.
fn memory(line: &str) -> Option<(u8, bool, u8, i32)> {
    let rest = &line[line.find("*(")? + 2..];
    let (ty, rest) = rest.split_once(" *)(")?;
    let inside = rest.split(')').next()?;
    let words: Vec<&str> = inside.split_whitespace().collect();
    let off = match words.get(1).copied() {
        None => 0,
        Some(sign) => number(words.get(2)?)? as i32 * if sign == "-" { -1 } else { 1 },
    };
    let size = match &ty[1..] {
        "8" => insn::B,
        "16" => insn::H,
        "32" => insn::W,
        "64" => insn::DW,
        _ => return None,
    };
    Some((size, ty.starts_with('s'), register(words[0])?.0, off))
}

fn condition(text: &str) -> Option<u8> {
    Some(match text {
        "==" => jmp::JEQ,
        "!=" => jmp::JNE,
        ">" => jmp::JGT,
        ">=" => jmp::JGE,
        "<" => jmp::JLT,
        "<=" => jmp::JLE,
        "s>" => jmp::JSGT,
        "s>=" => jmp::JSGE,
        "s<" => jmp::JSLT,
        "s<=" => jmp::JSLE,
        "&" => jmp::JSET,
        _ => return None,
    })
}

fn assignment(words: &[&str], line: &str) -> Option<Insn> {
    let (dst, wide) = register(words[0])?;
    let class = if wide { insn::ALU64 } else { insn::ALU };
    let last = words[words.len() - 1];
    let (op, off) = match *words.get(1)? {
        "=" => {
            if words[2] == "acquire" {
                let (size, _, base, off) = memory(line)?;
                return Some(make(
                    insn::STX | insn::ATOMIC | size,
                    dst,
                    base,
                    off,
                    atomic::LOAD_ACQUIRE,
                ));
            }
            if line.contains("*(") {
                let (size, signed, base, off) = memory(line)?;
                let mode = if signed { insn::MEMSX } else { insn::MEM };
                return Some(make(insn::LDX | mode | size, dst, base, off, 0));
            }
            if let Some((ty, source)) = words[2].strip_prefix("(s").and_then(|w| w.split_once(')')) {
                return Some(make(
                    class | alu::MOV | insn::X,
                    dst,
                    register(source)?.0,
                    ty.parse().ok()?,
                    0,
                ));
            }
            if let Some(bits) = words[2].strip_prefix("bswap") {
                return Some(make(insn::ALU64 | alu::END, dst, 0, 0, bits.parse().ok()?));
            }
            if let Some(bits) = words[2].strip_prefix("be") {
                return Some(make(insn::ALU | alu::END | insn::X, dst, 0, 0, bits.parse().ok()?));
            }
            if let Some(bits) = words[2].strip_prefix("le") {
                return Some(make(insn::ALU | alu::END, dst, 0, 0, bits.parse().ok()?));
            }
            if words[2] == "neg" {
                return Some(make(class | alu::NEG, dst, 0, 0, 0));
            }
            if words[2] == "cast_kern" || words[2] == "cast_user" {
                let imm = if words[2] == "cast_user" { insn::CAST_USER } else { 1 };
                return Some(make(
                    insn::ALU64 | alu::MOV | insn::X,
                    dst,
                    register(last)?.0,
                    insn::CAST,
                    imm,
                ));
            }
            if let Some(value) = number(words[2])
                && i32::try_from(value).is_err()
            {
                return Some(make(image::LD_IMM64, dst, 0, 0, value));
            }
            (alu::MOV, 0)
        }
        "+=" => (alu::ADD, 0),
        "-=" => (alu::SUB, 0),
        "*=" => (alu::MUL, 0),
        "/=" => (alu::DIV, 0),
        "s/=" => (alu::DIV, 1),
        "%=" => (alu::MOD, 0),
        "s%=" => (alu::MOD, 1),
        "|=" => (alu::OR, 0),
        "&=" => (alu::AND, 0),
        "^=" => (alu::XOR, 0),
        "<<=" => (alu::LSH, 0),
        ">>=" => (alu::RSH, 0),
        "s>>=" => (alu::ARSH, 0),
        _ => return None,
    };
    operand(class | op, dst, last, off)
}

fn map_kind(name: &str) -> Option<u32> {
    use bpf::map::kind::*;
    Some(match name {
        "hash" => HASH,
        "array" => ARRAY,
        "percpu_array" => PERCPU_ARRAY,
        "percpu_hash" => PERCPU_HASH,
        "lru_hash" => LRU_HASH,
        "array_of_maps" => ARRAY_OF_MAPS,
        "queue" => QUEUE,
        "stack" => STACK,
        "ringbuf" => RINGBUF,
        "user_ringbuf" => USER_RINGBUF,
        "task_storage" => TASK_STORAGE,
        "perf_event_array" => PERF_EVENT_ARRAY,
        "arena" => ARENA,
        "stack_trace" => 7,
        _ => return None,
    })
}

/// Parses a special field and its offset, such as `timer@8`.
fn field(text: &str) -> Option<Field> {
    let (name, offset) = text.split_once('@')?;
    let (kind, size) = match name {
        "lock" => (FieldKind::SpinLock, 4),
        "timer" => (FieldKind::Timer, 16),
        "refcount" => (FieldKind::Refcount, 4),
        "kptr" => (
            FieldKind::Kptr {
                to: "bpf_cpumask".into(),
                id: 0,
                owned: true,
                percpu: false,
            },
            8,
        ),
        _ => return None,
    };
    Some(Field {
        offset: offset.parse().ok()?,
        size,
        kind,
    })
}
