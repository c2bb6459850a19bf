// SPDX-License-Identifier: GPL-2.0-only
//! Loads linked code: makes it callable by one of the engines.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::budget::BUDGET;
use super::context::{Context, Entry, Hardware};
use super::func::Func;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::gap;
use super::gap::Gaps;
use super::vm::{SLACK, Vm};
use super::world::World;
use super::{host_stack, interpreter};
use crate::error::Error;
use crate::fault::Fault;
use crate::image::{CALL, CALL_FUNCTION, Code, Insn, LocalTypes};
use crate::insn::{self, FRAME, FRAMES};
use crate::map::{Handles, Map, kind};
use crate::memory::Region;
use crate::sanitizer::{self, Rules, Sanitizer};

/// The engine that executes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Engine {
    /// Executes one instruction at a time. Works on every host.
    #[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), default)]
    Interpreter,
    /// Compiles the program to machine code. Works only on x86-64 Linux.
    #[cfg_attr(all(target_arch = "x86_64", target_os = "linux"), default)]
    Jit,
}

/// [`Context::id`] of the next program that is loaded.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl Engine {
    /// The engines that work on this host.
    pub const AVAILABLE: &[Engine] = &[
        Engine::Interpreter,
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Engine::Jit,
    ];
}

impl<W: World> Vm<W> {
    /// Makes linked code callable. `funcs` contains all functions that the code may call: the
    /// helpers of this crate ([`helper::table`](crate::helper::table)) and the functions of the
    /// world. A call of any other function faults. Panics if a map was created in a different
    /// region.
    pub fn new(
        code: Code,
        maps: Vec<Map>,
        types: LocalTypes,
        funcs: &[Func<W>],
        region: Rc<Region>,
        engine: Engine,
    ) -> Result<Vm<W>, Error> {
        Vm::build(code, maps, types, funcs, region, engine, None)
    }

    /// Makes linked code callable with the [sanitizer] on; see [`Vm::new`].
    pub fn with_sanitizer(
        code: Code,
        maps: Vec<Map>,
        types: LocalTypes,
        funcs: &[Func<W>],
        region: Rc<Region>,
        engine: Engine,
        rules: Rules,
    ) -> Result<Vm<W>, Error> {
        Vm::build(code, maps, types, funcs, region, engine, Some(rules))
    }

    fn build(
        code: Code,
        maps: Vec<Map>,
        types: LocalTypes,
        funcs: &[Func<W>],
        region: Rc<Region>,
        engine: Engine,
        rules: Option<Rules>,
    ) -> Result<Vm<W>, Error> {
        let mut helpers = Vec::new();
        for func in funcs {
            if let Some(number) = func.helper {
                let number = number as usize;
                helpers.resize(helpers.len().max(number + 1), None);
                helpers[number] = Some(func.target());
            }
        }
        let kfuncs = code
            .kfuncs
            .iter()
            .map(|name| {
                funcs
                    .iter()
                    .find(|f| f.helper.is_none() && f.name == name.as_str())
                    .map(Func::target)
            })
            .collect();
        insn::verify(&code)?;
        let calls = |i: &Insn| i.op == CALL && i.src == CALL_FUNCTION;
        let nests = code
            .functions
            .iter()
            .map(|f| code.insns[f.start..f.end].iter().any(calls))
            .collect();
        let stack = region
            .pages(FRAMES * FRAME + SLACK)
            .ok_or_else(|| region.memory().message())?;
        region.lines().make_private(stack, FRAMES * FRAME + SLACK);
        let (arena, arena_user) = maps.iter().find_map(Map::arena_bases).unwrap_or((0, 0));
        for map in &maps {
            assert!(map.is_in(&region), "a program's maps are in the program's region");
            let text = |fault: Fault| format!("map {}: {fault}", map.name());
            if matches!(map.def().kind, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS) {
                for &(key, inner) in &map.def().values {
                    let inner = maps
                        .get(inner)
                        .ok_or_else(|| format!("map {}: no inner map {inner}", map.name()))?;
                    // A slot of a map of maps holds the address of the inner map, even if the map
                    // of maps declares another value size.
                    let value = inner.addr().to_le_bytes();
                    map.update(&region, &key.to_le_bytes(), &value, 0, 0).map_err(text)?;
                }
            }
        }
        let handles = Handles::new(maps.iter().map(Map::addr));
        let mut cx = Box::new(Context {
            left: BUDGET as i64,
            cost: 0,
            fp: stack + FRAMES * FRAME,
            stack_limit: stack + FRAME,
            pc: 0,
            contexts: 0,
            own_cache: region.lines().cache(0).own,
            cpu: 0,
            world: std::ptr::null_mut(),
            rsp: 0,
            fault: None,
            hardware: Hardware::default(),
            interpreting: false,
            depth: 0,
            native_stack: host_stack::needed(host_stack::INTERPRETER_FRAME),
            native_limit: u64::MAX,
            limit: BUDGET as i64,
            until: BUDGET as i64,
            function: 0,
            nests,
            base: region.base(),
            delta: region.delta(),
            zeros: region.zeros(),
            arena,
            arena_user,
            gaps: Gaps::new(),
            entries: Vec::new(),
            engine_entries: vec![interpreter::run as Entry; code.functions.len()],
            code,
            helpers,
            kfuncs,
            maps,
            handles,
            types,
            state: RefCell::default(),
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            compiled: None,
            code_origin: None,
            interpreted: None,
            stack,
            region,
            more_stacks: Vec::new(),
            hooks: None,
            branches: Vec::new(),
            arg_tags: [0; 6],
            counting: None,
            count_path: 0,
            sanitizer: None,
            arg_prov: [0; 6],
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        });
        if let Some(rules) = rules {
            cx.sanitizer = Some(Box::new(Sanitizer::new(&cx, rules)?));
            cx.engine_entries.fill(interpreter::run_sanitized as Entry);
        }

        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if arena != 0 {
            gap::prepare();
        }
        match engine {
            Engine::Interpreter => {}
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Engine::Jit => match super::jit::compile(&cx) {
                Ok((compiled, entries, origin)) => {
                    cx.engine_entries = entries;
                    cx.native_stack = host_stack::needed(compiled.frame());
                    cx.code_origin = Some(origin);
                    cx.compiled = Some(compiled);
                }
                Err(super::jit::Error::TooLarge(why)) => cx.interpreted = Some(why),
                Err(super::jit::Error::Failed(message)) => return Err(message.into()),
            },
            #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
            Engine::Jit => {
                return Err("the JIT works only on x86-64 Linux; use the interpreter".into());
            }
        }
        cx.entries.clone_from(&cx.engine_entries);
        if cx.sanitizer.is_some() {
            cx.entries.fill(sanitizer::enter);
        }
        Ok(Vm {
            cx: NonNull::from(Box::leak(cx)),
            world: PhantomData,
        })
    }
}
