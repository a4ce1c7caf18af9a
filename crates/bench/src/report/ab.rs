//! ab's report (Apache HTTP Server 2.4), line for line: programs read it. Never has more than ab's does.

use std::fmt::Write as _;

use crate::{
    summary::{Row, Summary},
    target::Target,
};

/// The percentages of ab's last table.
const PERCENTAGES: [f64; 9] = [50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 100.0];

/// What of the tables is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    /// Otherwise as with -d.
    pub percentages: bool,
    /// Otherwise as with -S.
    pub deviation: bool,
}

/// `any_length`: responses of another length have not failed (-l). `posted`: requests had a body.
pub fn text(summary: &Summary, target: &Target, any_length: bool, posted: bool, tables: Tables) -> String {
    let lengths = if any_length { 0 } else { summary.other_lengths };
    let failed = summary.failed() + lengths;
    let seconds = summary.seconds.max(1e-6);
    let length =
        if any_length { "Variable".to_owned() } else { format!("{} bytes", summary.length.unwrap_or_default()) };
    let mut text = format!("This is paceline bench {}, with ab's report\n\n", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "Benchmarking {} (be patient).....done\n\n", target.host);
    line(&mut text, "Server Software", summary.server.as_deref().unwrap_or_default());
    line(&mut text, "Server Hostname", &target.host);
    line(&mut text, "Server Port", &target.port.to_string());
    text.push('\n');
    line(&mut text, "Document Path", &target.path);
    line(&mut text, "Document Length", &length);
    text.push('\n');
    line(&mut text, "Concurrency Level", &summary.clients.to_string());
    line(&mut text, "Time taken for tests", &format!("{seconds:.3} seconds"));
    line(&mut text, "Complete requests", &summary.answers.to_string());
    line(&mut text, "Failed requests", &failed.to_string());
    if failed > 0 {
        let _ = writeln!(text, "   (Connect: 0, Receive: {}, Length: {lengths}, Exceptions: 0)", summary.failed());
    }
    let not_2xx = summary.not_2xx();
    if not_2xx > 0 {
        line(&mut text, "Non-2xx responses", &not_2xx.to_string());
    }
    if summary.keep_alive {
        line(&mut text, "Keep-Alive requests", &summary.answers.to_string());
    }
    line(&mut text, "Total transferred", &format!("{} bytes", summary.received));
    if posted {
        line(&mut text, "Total body sent", &summary.sent.to_string());
    }
    line(&mut text, "HTML transferred", &format!("{} bytes", summary.body_bytes));
    let rate = summary.answers as f64 / seconds;
    let each = 1000.0 / rate.max(1e-9);
    line(&mut text, "Requests per second", &format!("{rate:.2} [#/sec] (mean)"));
    line(&mut text, "Time per request", &format!("{:.3} [ms] (mean)", each * summary.clients as f64));
    line(&mut text, "Time per request", &format!("{each:.3} [ms] (mean, across all concurrent requests)"));
    let received = summary.received as f64 / 1024.0 / seconds;
    line(&mut text, "Transfer rate", &format!("{received:.2} [Kbytes/sec] received"));
    if posted {
        let sent = summary.sent as f64 / 1024.0 / seconds;
        let _ = writeln!(text, "{:24}{sent:.2} kb/s sent\n{:24}{:.2} kb/s total", "", "", sent + received);
    }
    if tables.deviation {
        connection_times(&mut text, &summary.table)
    } else {
        simple_times(&mut text, &summary.table)
    }
    if tables.percentages {
        percentages(&mut text, summary);
    }
    text
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{:<24}{value}", format!("{name}:"));
}

const ROWS: [&str; 4] = ["Connect:", "Processing:", "Waiting:", "Total:"];

fn simple_times(text: &mut String, rows: &[Row; 4]) {
    text.push_str("\nConnection Times (ms)\n              min   avg   max\n");
    for (name, Row { min, mean, max, .. }) in ROWS.iter().zip(rows) {
        let _ = writeln!(text, "{name:<11} {min:>5.0} {mean:>5.0}{max:>5.0}");
    }
}

fn connection_times(text: &mut String, rows: &[Row; 4]) {
    text.push_str("\nConnection Times (ms)\n              min  mean[+/-sd] median   max\n");
    for (name, row) in ROWS.iter().zip(rows) {
        let Row { min, mean, deviation, median, max } = row;
        let _ = writeln!(text, "{name:<11} {min:>5.0} {mean:>4.0} {deviation:>5.1} {median:>6.0} {max:>7.0}");
    }
}

fn percentages(text: &mut String, summary: &Summary) {
    text.push_str("\nPercentage of the requests served within a certain time (ms)\n");
    for percent in PERCENTAGES {
        let longest = if percent == 100.0 { " (longest request)" } else { "" };
        let _ = writeln!(text, "{percent:>4}%{:>7.0}{longest}", summary.percentile(percent));
    }
}
