// SPDX-License-Identifier: GPL-2.0-only
//! Equations of queueing theory: mean response times in ms of open systems, in which jobs arrive at
//! random times (a Poisson process).
//!
//! Source: Kleinrock, "Queueing Systems", volumes 1 (1975) and 2 (1976): the Pollaczek-Khinchine
//! formula, the Erlang C formula, and the fact that processor sharing depends only on the mean of
//! the service time.

use super::measure::Arguments;
use input::Error;

/// Maximum number of servers: the maximum number of CPUs of a machine.
const MAX_SERVERS: f64 = machine::MAX_CPUS as f64;

/// Solves the equation `name`.
///
/// # Errors
/// The name is unknown, an argument is missing, or the system has no steady state.
pub fn solve(name: &str, arguments: &Arguments) -> Result<f64, Error> {
    if name == "constant" {
        let value = arguments.number("value")?;
        return value.ok_or_else(|| "constant: the argument 'value' is missing".into());
    }
    let ms = |name: &str| -> Result<f64, Error> {
        let ns = arguments
            .time(name)?
            .ok_or_else(|| format!("the argument '{name}' is missing"))?;
        Ok(ns as f64 / 1e6)
    };
    let number = |name: &str, default: f64| arguments.number(name).map(|value| value.unwrap_or(default));
    let equation: fn(f64, f64, f64, f64) -> f64 = match name {
        "mg1_fcfs" => mg1_fcfs,
        "mg1_ps" => |interarrival, service, _, _| service / (1.0 - service / interarrival),
        "mmc_fcfs" => mmc_fcfs,
        _ => {
            return Err(Error::new(format!(
                "there is no equation '{name}'\n  hint: mg1_fcfs (cv2: squared coefficient of variation of the service \
                 time), mg1_ps, mmc_fcfs (servers), all with interarrival and service; or constant (value)"
            )));
        }
    };
    let (interarrival, service) = (ms("interarrival")?, ms("service")?);
    let (servers, cv2) = (number("servers", 1.0)?, number("cv2", 1.0)?);
    if servers.fract() != 0.0 || !(1.0..=MAX_SERVERS).contains(&servers) {
        return Err(Error::new(format!(
            "{name}: servers = {servers}: expected a whole number, 1 to {MAX_SERVERS}"
        )));
    }
    if service >= interarrival * servers {
        return Err(Error::new(format!(
            "{name}: a system with load {} has no steady state",
            service / interarrival / servers
        )));
    }
    Ok(equation(interarrival, service, servers, cv2))
}

/// Returns `S + rho S (1 + c^2) / (2 (1 - rho))`. S is the mean service time, rho the load, and c^2
/// the squared coefficient of variation of the service time.
fn mg1_fcfs(interarrival: f64, service: f64, _: f64, cv2: f64) -> f64 {
    let load = service / interarrival;
    service + load * service * (1.0 + cv2) / (2.0 * (1.0 - load))
}

/// Returns `S + C(c, a) S / (c - a)`. S is the mean service time, c the number of servers, a = S /
/// interarrival time, and C the Erlang C formula. Erlang C is computed from Erlang B.
fn mmc_fcfs(interarrival: f64, service: f64, servers: f64, _: f64) -> f64 {
    let offered = service / interarrival;
    let numbers = (1..).map(f64::from).take_while(|&n| n <= servers);
    let blocked = numbers.fold(1.0, |b, n| offered * b / (n + offered * b));
    let waits = blocked / (1.0 - offered / servers * (1.0 - blocked));
    service + waits * service / (servers - offered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_give_known_values() {
        // All cases have a load of 0.8 and a service time of 8 ms.
        for (name, interarrival, more, expected) in [
            ("mg1_fcfs", "10ms", ("cv2", "1"), 40.0),
            ("mg1_fcfs", "10ms", ("cv2", "0"), 24.0),
            ("mg1_ps", "10ms", ("cv2", "0"), 40.0),
            ("mmc_fcfs", "10ms", ("servers", "1"), 40.0),
            ("mmc_fcfs", "5ms", ("servers", "2"), 22.222),
            ("mmc_fcfs", "2500us", ("servers", "4"), 13.964),
        ] {
            let arguments = Arguments::new(&[("interarrival", interarrival), ("service", "8ms"), more]);
            let solved = solve(name, &arguments).expect(name);
            assert!((solved - expected).abs() < 1e-3, "{name}: {solved}");
        }
        let overload = Arguments::new(&[("interarrival", "8ms"), ("service", "8ms")]);
        assert!(
            solve("mg1_ps", &overload)
                .expect_err("overload")
                .message
                .contains("no steady state")
        );
        for servers in ["4000000000", "1e300", "0", "1.5", "NaN"] {
            let many = Arguments::new(&[("interarrival", "10ms"), ("service", "8ms"), ("servers", servers)]);
            let error = solve("mmc_fcfs", &many).expect_err(servers);
            assert!(error.message.contains("number"), "{error}");
        }
        assert!(
            solve("mm1", &overload)
                .expect_err("unknown")
                .message
                .contains("there is no equation")
        );
    }
}
