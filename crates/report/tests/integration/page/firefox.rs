// SPDX-License-Identifier: GPL-2.0-only
//! Tests the page in Firefox: `firefox-esr` as Debian packages it, another Firefox, or the browser
//! that the variable FIREFOX names. Without one, the test is skipped with a message.
//!
//! Firefox cannot print a page as text. The script of the test therefore sends its results to a
//! server of the test.

use super::browser::{LISTEN, PROBE, installed};
use super::two;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time until the results arrive. On a busy host, the browser starts slowly.
const LIMIT: Duration = Duration::from_secs(150);

/// Ends the browser when the test ends.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the body of a request.
fn body(mut stream: TcpStream) -> Option<String> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = stream.read(&mut part).ok()?;
        bytes.extend(&part[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse::<usize>().ok())?
        });
        if read == 0 || length.is_some_and(|length| body.len() >= length) {
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            return Some(body.to_owned());
        }
    }
}

#[test]
fn two_runs_work_in_firefox() {
    let named = std::env::var_os("FIREFOX").map(PathBuf::from);
    let Some(firefox) = named.or_else(|| installed(&["firefox-esr", "firefox"])) else {
        golden::skip!("there is no Firefox (apt-get install firefox-esr)");
        return;
    };
    let server = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    server.set_nonblocking(true).expect("the server does not block");
    let port = server.local_addr().expect("the server has an address").port();
    let send = format!("fetch('http://127.0.0.1:{port}/',{{method:'POST',mode:'no-cors',body:pre.textContent}});");
    let probe = PROBE.replacen(
        "document.body.append(pre);",
        &format!("document.body.append(pre);{send}"),
        1,
    );
    assert_ne!(probe, PROBE, "the script of the test shows its results at its end");
    let html = two().replacen("<head>", &format!("<head>{LISTEN}"), 1);
    let html = html.replacen("</body>", &format!("<script>{probe}</script></body>"), 1);
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("firefox");
    let _ = std::fs::remove_dir_all(&directory);
    let profile = directory.join("profile");
    std::fs::create_dir_all(&profile).expect("the directory can be created");
    let path = directory.join("page.html");
    std::fs::write(&path, html).expect("the page can be written");
    let started = Command::new(firefox)
        .args(["--headless", "--no-remote", "--window-size=1280,900", "--profile"])
        .arg(&profile)
        .arg(format!("file://{}", path.display()))
        .env("HOME", &directory)
        .env("MOZ_HEADLESS_WIDTH", "1280")
        .env("MOZ_HEADLESS_HEIGHT", "900")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let browser = Browser(started.expect("Firefox starts"));
    let started = Instant::now();
    let found = loop {
        if let Ok((stream, _)) = server.accept() {
            break body(stream).expect("the request is complete");
        }
        assert!(started.elapsed() < LIMIT, "Firefox sent no results");
        std::thread::sleep(Duration::from_millis(50));
    };
    drop(browser);
    let found: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&found).expect("the text is valid JSON");
    let other: Vec<_> = found.iter().filter(|(_, value)| **value != true).collect();
    assert!(found.len() > 30 && other.is_empty(), "{other:?}");
}
