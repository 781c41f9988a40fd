//! A status as Prometheus reads it (text format 0.0.4).

use std::fmt::Write;

use serde_json::Value;

/// The text for the status of `request: status`.
#[must_use]
pub fn exposition(status: &Value) -> String {
    let mut text = String::new();
    let node = &status["node"];
    head(&mut text, "packets_total", "counter", "Packets of each job by verdict.");
    for job in jobs(status) {
        for (verdict, count) in job["verdicts"].as_object().into_iter().flatten() {
            let labels = format!("node=\"{node}\",job=\"{}\",verdict=\"{verdict}\"", job["job"]);
            line(&mut text, "packets_total", &labels, count);
        }
    }
    for (name, kind, help, field) in [
        ("bytes_total", "counter", "Bytes of datagrams of each job.", "bytes"),
        ("memory_bytes", "gauge", "Slot memory of each job.", "memory_bytes"),
        ("members", "gauge", "Seats that are taken, one for each child and stream.", "members"),
    ] {
        head(&mut text, name, kind, help);
        for job in jobs(status) {
            let labels = format!("node=\"{node}\",job=\"{}\"", job["job"]);
            line(&mut text, name, &labels, &job[field]);
        }
    }
    head(&mut text, "tables", "gauge", "Rows of a server of tables, and what became of hot ones.");
    for job in jobs(status) {
        for (name, value) in job["tables"].as_object().into_iter().flatten() {
            let labels = format!("node=\"{node}\",job=\"{}\",what=\"{name}\"", job["job"]);
            line(&mut text, "tables", &labels, value);
        }
    }
    head(
        &mut text,
        "node_packets_total",
        "counter",
        "Packets of the node by verdict, those that are no job's among them.",
    );
    for (verdict, count) in status["verdicts"].as_object().into_iter().flatten() {
        let labels = format!("node=\"{node}\",verdict=\"{verdict}\"");
        line(&mut text, "node_packets_total", &labels, count);
    }
    head(&mut text, "socket_total", "counter", "What the daemon's socket has done.");
    for (name, count) in status["socket"].as_object().into_iter().flatten() {
        line(&mut text, "socket_total", &format!("node=\"{node}\",what=\"{name}\""), count);
    }
    text
}

fn jobs(status: &Value) -> impl Iterator<Item = &Value> {
    status["jobs"].as_array().into_iter().flatten()
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP wiresum_{name} {help}\n# TYPE wiresum_{name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: &Value) {
    let _ = writeln!(text, "wiresum_{name}{{{labels}}} {value}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_line_is_a_comment_or_a_sample() {
        let status = json!({ "node": 3, "jobs": [{ "job": 7, "verdicts": { "added": 5 }, "bytes": 9, "memory_bytes": 10,
            "members": 2, "tables": { "rows": 4 } }], "socket": { "strays": 1 } });
        let text = exposition(&status);
        assert!(text.contains("wiresum_packets_total{node=\"3\",job=\"7\",verdict=\"added\"} 5\n"));
        assert!(text.contains("wiresum_bytes_total{node=\"3\",job=\"7\"} 9\n"), "{text}");
        assert!(text.contains("wiresum_tables{node=\"3\",job=\"7\",what=\"rows\"} 4\n"), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            assert!(name.starts_with("wiresum_") && value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
