// SPDX-License-Identifier: GPL-2.0-only
//! The JIT compiler, which translates each BPF function to a machine function through Cranelift.
//!
//! A machine function takes the [`Context`] and r1 to r5 and returns r0. Helpers have the same
//! signature. BPF registers are SSA variables. Another variable contains the number of instructions
//! that the call may still execute (its budget). Its value is stored in the context at each call
//! and at the end of the function.
//!
//! | module | content |
//! |---|---|
//! | `function` | translation of instructions |
//! | `memory` | loads and stores |
//! | `call` | calls |
//! | `sanitizer` | the run-time checks of `--sanitize` |
//! | `flow` | basic blocks and their order |
//! | `inputs` | all that the code depends on |
//! | `symbol`, `runtime` | addresses that are known only when code is loaded, and the functions of this crate among them |
//! | `compiled`, `load` | compiled code, before and after it is loaded |
//! | `cache` | the code that this process has compiled; `stored` is the form of code in a file |
//! | `pages` | memory for the code |

mod arithmetic;
mod cache;
mod call;
pub(super) mod compiled;
mod flow;
mod function;
mod inputs;
mod load;
mod memory;
mod pages;
mod runtime;
mod sanitizer;
mod stored;
mod symbol;

use std::sync::OnceLock;

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{AbiParam, ExternalName, Signature, types};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, CompiledCode, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilderContext;

use crate::engine::code_cache::Origin;
use crate::engine::context::Context;
use crate::engine::context::Entry;
use crate::engine::host_stack;
use crate::image::Function;
use compiled::{Compiled, Relocation, Template};
use flow::Flow;
use inputs::Inputs;
use symbol::Symbol;

/// Reasons for which a program is not compiled.
#[derive(Clone, Debug)]
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

/// Kind of the names that Cranelift uses for the program's own functions. The names for [`Symbol`]s
/// have other kinds.
const OWN_FUNCTION: u32 = 0;

/// Returns the machine code of a program, the entry points of its functions, and where the code
/// comes from. Compiles the code only if the [cache] has none for this program.
pub(crate) fn compile(cx: &Context) -> Result<(Compiled, Vec<Entry>, Origin), Error> {
    let isa = isa()?;
    let inputs = Inputs::new(cx);
    let (template, origin) = cache::find(inputs.key(isa), || translate(&inputs, isa))?;
    let (compiled, entries) = load::load(&template, cx)?;
    Ok((compiled, entries, origin))
}

/// Compiles all functions, if the program does not exceed the limits.
fn translate(cx: &Inputs<'_>, isa: &Isa) -> Result<Template, Error> {
    let (insns, functions) = (cx.code.insns.len(), cx.code.functions.len());
    if insns > MAX_PROGRAM {
        return Err(Error::too_large("the program", insns, "instructions", MAX_PROGRAM));
    }
    if functions > MAX_FUNCTIONS {
        return Err(Error::too_large("the program", functions, "functions", MAX_FUNCTIONS));
    }
    let flows = cx.code.functions.iter().map(|function| flow(cx, function));
    let flows = flows.collect::<Result<Vec<Flow>, Error>>()?;
    build(cx, isa, &flows)
}

/// Returns the basic blocks of a function, or an error if there are too many to compile.
fn flow(cx: &Inputs<'_>, function: &Function) -> Result<Flow, Error> {
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

/// The compiler's target: this CPU.
pub(super) struct Isa {
    isa: OwnedTargetIsa,
    /// All settings and CPU features, which decide what code the compiler emits.
    description: String,
}

/// Returns the compiler's target, or an error if the compiler does not support this CPU.
fn isa() -> Result<&'static Isa, Error> {
    static ISA: OnceLock<Result<Isa, Error>> = OnceLock::new();
    ISA.get_or_init(new_isa).as_ref().map_err(Error::clone)
}

fn new_isa() -> Result<Isa, Error> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed")?;
    flags.set("is_pic", "false")?;
    flags.set("unwind_info", "false")?;
    flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
    let isa =
        cranelift_native::builder().map_err(|message| Error::Failed(format!("the JIT compiler failed: {message}")))?;
    let isa = isa.finish(settings::Flags::new(flags))?;
    let features: Vec<String> = isa.isa_flags().iter().map(ToString::to_string).collect();
    let description = format!("{} {} {features:?}", isa.triple(), isa.flags());
    Ok(Isa { isa, description })
}

/// A call of one function of the program by another. The distance to the called function is filled
/// in when all functions are compiled.
struct OwnCall {
    /// Offset in the code at which the distance is written.
    offset: usize,
    /// Index of the called function.
    function: u32,
    /// Number that is added to the distance.
    addend: i64,
}

/// Compiles all functions one after the other, and collects their code in a template.
fn build(cx: &Inputs<'_>, isa: &Isa, flows: &[Flow]) -> Result<Template, Error> {
    let isa = &*isa.isa;
    let mut context = cranelift_codegen::Context::new();
    let mut builder_context = FunctionBuilderContext::new();
    let mut template = Template::default();
    let mut own_calls = Vec::new();
    for (index, flow) in flows.iter().enumerate() {
        context.clear();
        context.func.signature = own_signature(cx);
        function::translate(cx, index, flow, isa, &mut context.func, &mut builder_context);
        let name = &cx.code.functions[index].name;
        if let Err(error) = context.compile(isa, &mut ControlPlane::default()) {
            return Err(refused(name, error.inner));
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
        template.frame = own.max(template.frame);
        let align = code.buffer.alignment.max(isa.function_alignment().minimum) as usize;
        let start = template.code.len().next_multiple_of(align);
        template.code.resize(start, 0);
        template.code.extend_from_slice(code.code_buffer());
        let offset = |offset: u32| {
            let offset = u32::try_from(start).ok().and_then(|start| start.checked_add(offset));
            offset.ok_or_else(|| Error::TooLarge(format!("function {name} is too large for the JIT")))
        };
        template.starts.push(offset(0)?);
        for location in code.buffer.get_srclocs_sorted() {
            let pc = (!location.loc.is_default()).then_some(location.loc.bits());
            template.locations.push((offset(location.start)?, pc));
        }
        for relocation in code.buffer.relocs() {
            let unknown = || Error::Failed(format!("the JIT compiler failed: unexpected relocation {relocation:?}"));
            let FinalizedRelocTarget::ExternalName(ExternalName::User(target)) = relocation.target else {
                return Err(unknown());
            };
            let target = &context.func.params.user_named_funcs()[target];
            let offset = offset(relocation.offset)?;
            match (relocation.kind, target.namespace) {
                (Reloc::X86CallPCRel4, OWN_FUNCTION) => own_calls.push(OwnCall {
                    offset: offset as usize,
                    function: target.index,
                    addend: relocation.addend,
                }),
                (Reloc::Abs8, kind) => template.relocations.push(Relocation {
                    offset,
                    symbol: Symbol::from_parts(kind, target.index).ok_or_else(unknown)?,
                    addend: relocation.addend,
                }),
                _ => return Err(unknown()),
            }
        }
    }
    for OwnCall {
        offset,
        function,
        addend,
    } in own_calls
    {
        let distance = i64::from(template.starts[function as usize]) - offset as i64 + addend;
        let distance =
            i32::try_from(distance).map_err(|_| Error::TooLarge("the program is too large for the JIT".into()))?;
        template.code[offset..offset + 4].copy_from_slice(&distance.to_le_bytes());
    }
    Ok(template)
}

/// Converts an error of the compiler. [`Error::TooLarge`] means that the function exceeds a limit
/// of the compiler, and [`Error::Failed`] that the compiler does not work on this host.
fn refused(function: &str, error: CodegenError) -> Error {
    match error {
        CodegenError::ImplLimitExceeded | CodegenError::CodeTooLarge => {
            Error::TooLarge(format!("function {function} is too large for the JIT: {error}"))
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
/// Their calling convention preserves no registers, so a function saves none on entry. Rust calls
/// compiled functions through the trampoline in [`enter`](crate::engine::enter), which saves and
/// restores all callee-saved registers. If the sanitizer is on, some Rust code calls compiled
/// functions without the trampoline, so they use the C convention.
fn own_signature(cx: &Inputs<'_>) -> Signature {
    let mut signature = signature(5);
    if cx.checks.is_none() {
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
