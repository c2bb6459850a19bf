// SPDX-License-Identifier: GPL-2.0-only
//! The JIT compiler, which translates each BPF function to a machine function through Cranelift.
//!
//! A machine function takes the [`Context`] and r1 to r5 and returns r0, as helpers do. BPF
//! registers are SSA variables. Another variable contains the number of instructions that the call
//! may still execute (its budget). It is stored in the context at calls and at the end.
//!
//! | module | content |
//! |---|---|
//! | `function` | translation of instructions |
//! | `memory` | loads and stores |
//! | `call` | calls |
//! | `sanitizer` | the run-time checks of `--check` |
//! | `flow` | basic blocks and their order |
//! | `pages` | memory for the code |

mod call;
pub(super) mod compiled;
mod flow;
mod function;
mod memory;
mod pages;
mod sanitizer;

use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, CompiledCode};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleError};

use crate::engine::context::Context;
use crate::engine::context::Entry;
use crate::engine::host_stack;
use crate::image::Function;
use compiled::Compiled;
use flow::Flow;
use pages::Pages;

/// Reasons for which a program is not compiled.
pub(crate) enum Error {
    /// The program exceeds a limit of the compiler. The interpreter runs it instead.
    TooLarge(String),
    /// The host does not support or allow compilation.
    Failed(String),
}

/// Limits on the size of a function and of a program that the JIT compiles. The compile time of a
/// function grows faster than its size, most of all with nested loops. A function at these limits
/// takes about one second to compile, or two with the sanitizer.
const MAX_INSNS: usize = 16 << 10;
const MAX_BLOCKS: usize = 8 << 10;
const MAX_LOOPS: usize = 128;
const MAX_PROGRAM: usize = 128 << 10;
const MAX_FUNCTIONS: usize = 4096;

/// Average number of bytes of machine code reserved for one instruction. The largest average seen
/// is 160 bytes, with the sanitizer.
const CODE_PER_INSN: usize = 1024;

/// Compiles all functions. Returns the code and the entry point of each function.
pub(crate) fn compile(cx: &Context) -> Result<(Compiled, Vec<Entry>), Error> {
    let (insns, functions) = (cx.code.insns.len(), cx.code.functions.len());
    if insns > MAX_PROGRAM {
        return Err(Error::too_large("the program", insns, "instructions", MAX_PROGRAM));
    }
    if functions > MAX_FUNCTIONS {
        return Err(Error::too_large("the program", functions, "functions", MAX_FUNCTIONS));
    }
    let flows = cx.code.functions.iter().map(|function| flow(cx, function));
    let flows = flows.collect::<Result<Vec<Flow>, Error>>()?;
    build(cx, &flows)
}

/// Returns the basic blocks of a function, or an error if there are too many to compile.
fn flow(cx: &Context, function: &Function) -> Result<Flow, Error> {
    let name = || format!("function {}", function.name);
    let insns = function.end - function.start;
    if insns > MAX_INSNS {
        return Err(Error::too_large(&name(), insns, "instructions", MAX_INSNS));
    }
    let flow = Flow::new(&cx.code.insns, function);
    if flow.blocks.len() > MAX_BLOCKS {
        return Err(Error::too_large(&name(), flow.blocks.len(), "basic blocks", MAX_BLOCKS));
    }
    if flow.loops() > MAX_LOOPS {
        return Err(Error::too_large(&name(), flow.loops(), "loops", MAX_LOOPS));
    }
    Ok(flow)
}

impl Error {
    fn too_large(subject: &str, count: usize, unit: &str, max: usize) -> Error {
        Error::TooLarge(format!(
            "{subject} has {count} {unit}, and the JIT compiles at most {max}"
        ))
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error::Failed(format!(
            "the JIT compiler failed: {error}; the interpreter works without it"
        ))
    }
}

fn new_module(cx: &Context) -> Result<JITModule, Error> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed")?;
    flags.set("is_pic", "false")?;
    flags.set("unwind_info", "false")?;
    flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
    let isa =
        cranelift_native::builder().map_err(|message| Error::Failed(format!("the JIT compiler failed: {message}")))?;
    let isa = isa.finish(settings::Flags::new(flags))?;
    let mut builder = JITBuilder::with_isa(isa, cranelift_module::default_libcall_names());
    builder.memory_provider(Box::new(Pages::reserve(CODE_PER_INSN * (cx.code.insns.len() + 16))?));
    Ok(JITModule::new(builder))
}

fn build(cx: &Context, flows: &[Flow]) -> Result<(Compiled, Vec<Entry>), Error> {
    let mut module = new_module(cx)?;
    let mut ids: Vec<FuncId> = Vec::new();
    for index in 0..cx.code.functions.len() {
        ids.push(module.declare_function(&format!("f{index}"), Linkage::Local, &own_signature(cx))?);
    }
    let mut context = module.make_context();
    let mut builder_context = FunctionBuilderContext::new();
    let mut offsets: Vec<Vec<(u32, Option<u32>)>> = Vec::new();
    let mut sizes = Vec::new();
    let mut frame = 0;
    for (index, &id) in ids.iter().enumerate() {
        context.func.signature = own_signature(cx);
        let func = &mut context.func;
        function::translate(cx, index, &flows[index], &ids, &mut module, func, &mut builder_context);
        let name = &cx.code.functions[index].name;
        if let Err(error) = module.define_function(id, &mut context) {
            return Err(refused(name, error));
        }
        let code = context
            .compiled_code()
            .ok_or_else(|| Error::Failed("the JIT compiler failed: it produced no code".into()))?;
        let own = frame_size(code);
        if own > host_stack::MAX_FRAME {
            let (name, most) = (format!("function {name}"), host_stack::MAX_FRAME as usize);
            return Err(Error::too_large(
                &name,
                own as usize,
                "bytes of values in a machine frame",
                most,
            ));
        }
        frame = own.max(frame);
        sizes.push(u64::from(code.code_info().total_size));
        let locations = code.buffer.get_srclocs_sorted().iter();
        offsets.push(
            locations
                .map(|p| (p.start, (!p.loc.is_default()).then_some(p.loc.bits())))
                .collect(),
        );
        module.clear_context(&mut context);
    }
    module.finalize_definitions()?;

    let starts: Vec<u64> = ids.iter().map(|&id| module.get_finalized_function(id) as u64).collect();
    let ends = starts.iter().zip(&sizes).map(|(start, size)| start + size);
    let range = starts.iter().copied().min().unwrap_or(0)..ends.max().unwrap_or(0);
    let mut locations: Vec<(u64, Option<u32>)> = starts
        .iter()
        .zip(offsets)
        .flat_map(|(&start, offsets)| {
            offsets
                .into_iter()
                .map(move |(offset, pc)| (start + u64::from(offset), pc))
        })
        .collect();
    locations.sort_unstable();
    // SAFETY: the code was compiled with this signature. Only the trampolines call entry points,
    // and they save the registers.
    let entries = starts
        .iter()
        .map(|&start| unsafe { std::mem::transmute::<u64, Entry>(start) })
        .collect();
    let compiled = Compiled {
        range,
        frame,
        locations,
        module: Some(module),
    };
    Ok((compiled, entries))
}

/// Converts the compiler's error about a function. Either the function exceeds a limit of the
/// compiler, or the compiler does not work on this host.
fn refused(function: &str, error: ModuleError) -> Error {
    match error {
        ModuleError::Compilation(limit @ (CodegenError::ImplLimitExceeded | CodegenError::CodeTooLarge)) => {
            Error::TooLarge(format!("function {function} is too large for the JIT: {limit}"))
        }
        ModuleError::Allocation { err } => {
            Error::TooLarge(format!("function {function} is too large for the JIT: {err}"))
        }
        error => Error::from(error),
    }
}

/// Returns the number of bytes of stack that a call of the function uses: return address, frame
/// pointer and frame.
fn frame_size(code: &CompiledCode) -> u64 {
    let frame = code
        .buffer
        .frame_layout()
        .map_or(u32::MAX, |layout| layout.frame_to_fp_offset);
    u64::from(frame) + 16
}

/// Returns the signature of compiled functions, which take the context and r1 to r5 and return r0.
/// Their calling convention preserves no registers, so a function saves none on entry. The
/// trampolines save them all, so that a fault can restore them. With the sanitizer, Rust code calls
/// the functions, so they use the C convention.
fn own_signature(cx: &Context) -> Signature {
    let mut signature = signature(5);
    if cx.sanitizer.is_none() {
        signature.call_conv = CallConv::Winch;
    }
    signature
}

/// Returns the signature of a Rust function, which takes the context and the first `args` of r1 to
/// r5 and returns r0.
fn signature(args: usize) -> Signature {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.extend((0..=args).map(|_| AbiParam::new(types::I64)));
    signature.returns.push(AbiParam::new(types::I64));
    signature
}
