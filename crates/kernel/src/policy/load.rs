// SPDX-License-Identifier: GPL-2.0-only
//! Loading of a policy's BPF object: opening it (`open`), the steps of its user-space part, and
//! enabling the policy. A profile is a file that describes the user-space part.

pub use crate::policy::load_error::{InputError, LoadError};
pub use crate::policy::open::{Checked, check, open, open_changed};

use crate::machine::Machine;
use crate::policy::refusal::check_members;
use crate::policy::user_space;
use crate::sched::ext::state::ops_table::{OpsTable, PreparedPolicy};
use crate::sched::ext::state::scheds::SchedId;
use crate::sched::tracepoint::state as hook;
use crate::sched::{ext, tracepoint};
use bpf::cache::{Competitors, LINE};
use bpf::engine::Engine;
use bpf::link::Image;
use bpf::object::Object;
use profile::Profile;

/// Loads the policy in an object, performs the steps of its profile and enables the policy. The
/// object's global variables must have been set before (see [`Profile::apply`]). The returned image
/// contains warnings about parts of the object that are not supported ([`Image::warnings`]), and
/// the addresses of its global variables.
///
/// # Errors
/// If the object cannot be loaded, or if the policy fails while it is being enabled.
pub fn load(m: &mut Machine, object: &Object, profile: &Profile, engine: Engine) -> Result<Image, LoadError> {
    let (mut image, policy) = open(m, object, profile, engine)?;
    if !profile.absent.is_empty() {
        image.warnings.push(format!("not modelled: {}", profile.absent));
    }
    attach(m, &image, policy, profile)?;
    Ok(image)
}

/// Performs the steps of the profile and enables the policy.
///
/// # Errors
/// If the profile does not fit the object, or if the policy fails while it is being enabled.
///
/// # Panics
/// If the policy was opened for a different machine.
pub fn attach(m: &mut Machine, image: &Image, policy: PreparedPolicy, profile: &Profile) -> Result<(), LoadError> {
    let cid = policy.cid;
    install_policy(m, image, policy, profile)?;
    let loaded = run_profile_and_enable(m, image, profile, cid);
    if loaded.is_err() {
        ext::enable::abandon(m);
    }
    loaded
}

/// Loads the policy in an object like [`load`], but as a sub-scheduler for the tasks of `cgroup` (an
/// index of the workload's cgroups) and of the cgroups below it. The policy that schedules these tasks
/// becomes its parent.
///
/// # Errors
/// If the object cannot be loaded, if the parent rejects the policy, or if the policy fails while it
/// is being enabled.
pub fn load_sub(
    m: &mut Machine,
    object: &Object,
    profile: &Profile,
    engine: Engine,
    cgroup: u32,
) -> Result<Image, LoadError> {
    let (image, policy) = open(m, object, profile, engine)?;
    let hooks = hook::resolve(&image.programs, profile).0;
    let cid = policy.cid;
    let id = ext::sub::install(m, policy, hooks, cgroup).map_err(LoadError::Refused)?;
    let loaded = run_profile_and_enable_sub(m, &image, profile, cid, id);
    if loaded.is_err() {
        ext::sub::abandon(m, id);
    }
    loaded.map(|()| image)
}

/// Performs [`run_profile_and_enable`] for a sub-scheduler.
fn run_profile_and_enable_sub(
    m: &mut Machine,
    image: &Image,
    profile: &Profile,
    cid: bool,
    id: SchedId,
) -> Result<(), LoadError> {
    ext::sub::in_sched(m, id, |m| user_space::before(m, image, profile, cid))?;
    ext::sub::enable(m, id).map_err(LoadError::Refused)?;
    Ok(ext::sub::in_sched(m, id, |m| user_space::after(m, image, profile))?)
}

/// Links and compiles an object, and installs its policy without enabling it. Afterwards its maps
/// exist, and its programs of type syscall can run. The caller does what else user space does before
/// it [enables](enable) the policy. Also returns whether the policy uses cids.
///
/// # Errors
/// If the object cannot be loaded, or if another policy is loaded.
pub fn install(
    m: &mut Machine,
    object: &Object,
    profile: &Profile,
    engine: Engine,
) -> Result<(Image, bool), LoadError> {
    let (image, policy) = open(m, object, profile, engine)?;
    let cid = policy.cid;
    install_policy(m, &image, policy, profile)?;
    Ok((image, cid))
}

fn install_policy(m: &mut Machine, image: &Image, policy: PreparedPolicy, profile: &Profile) -> Result<(), LoadError> {
    let hooks = hook::resolve(&image.programs, profile).0;
    ext::enable::install(m, policy, hooks).map_err(LoadError::Refused)?;
    m.ext.shows_dsqs = image
        .accessed
        .iter()
        .any(|field| field.ends_with(".scx.dsq") || field.ends_with("sched_ext_entity.dsq"));
    Ok(())
}

/// Enables a policy that [`install`] has installed. `change` gets the table of callbacks, and sets
/// what user space has changed in it.
///
/// # Errors
/// The exit record if the kernel would reject the policy, or if the policy failed while it was being
/// enabled. It has then been removed. A policy that is already enabled stays enabled.
pub fn enable(m: &mut Machine, image: &Image, cid: bool, change: impl FnOnce(&mut OpsTable)) -> Result<(), LoadError> {
    let release = m.options.release;
    ext::enable::check_disabled(m, m.ext.ops()).map_err(LoadError::Refused)?;
    let Some(policy) = m.ext.policy.as_mut() else {
        return Err(LoadError::Input(InputError::NotInstalled));
    };
    change(&mut policy.ops);
    let checked = check_members(&policy.ops, release);
    let enabled = checked
        .map_err(|refusal| LoadError::refused(image, refusal, m.now))
        .and_then(|()| {
            tracepoint::bpf_scx_reg(m, cid);
            register_competitors(m, image)?;
            ext::enable::enable(m, cid).map_err(LoadError::Refused)
        });
    if enabled.is_err() {
        ext::enable::abandon(m);
    }
    enabled
}

/// Performs the steps of the profile for a policy that has been installed in the machine, and
/// enables the policy.
fn run_profile_and_enable(m: &mut Machine, image: &Image, profile: &Profile, cid: bool) -> Result<(), LoadError> {
    user_space::before(m, image, profile, cid)?;
    register_competitors(m, image)?;
    ext::enable::enable(m, cid).map_err(LoadError::Refused)?;
    Ok(user_space::after(m, image, profile)?)
}

/// Declaration tag with which a policy marks a global array that stands for fields of task_struct.
/// The array has one element for each task. Its cache lines compete for space in the caches like
/// those of task_structs.
const TASK_STRUCT: &str = "task_struct";

/// Registers the arrays with the tag TASK_STRUCT, so that their cache lines compete for space in
/// the simulated caches.
fn register_competitors(m: &Machine, image: &Image) -> Result<(), InputError> {
    let tagged = image.sections.iter().flat_map(|section| &section.tagged);
    for array in tagged.filter(|array| array.tag == TASK_STRUCT) {
        if array.stride == 0 || !array.stride.is_multiple_of(LINE) || !array.addr.is_multiple_of(LINE) {
            return Err(InputError::Unaligned {
                array: array.name.clone(),
                tag: TASK_STRUCT,
            });
        }
        m.region.lines().add_competitors(Competitors {
            base: array.addr,
            stride: array.stride,
            count: array.count,
            lines: array.stride / LINE,
        });
    }
    Ok(())
}
