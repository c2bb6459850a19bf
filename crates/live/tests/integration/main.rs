// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `windtunnel-live` on the host that load no policy.

mod alone;
mod compare;
mod every;
mod refusals;
mod run;
mod study;
