// SPDX-License-Identifier: GPL-2.0-only
//! The `windtunnel` command.

fn main() -> std::process::ExitCode {
    windtunnel::command::main(std::env::args_os()).into()
}
