//! Results as files for other programs: CSV, ab's -e and -g, HdrHistogram's distribution. Never has what the terminal has not.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use crate::{
    recording::{Times, SLICE},
    summary::Summary,
};

/// A line for every 200 ms: seconds since the beginning, answers, p50 and p99 in milliseconds.
pub fn csv(summary: &Summary) -> String {
    let mut text = String::from("seconds,answers,p50_ms,p99_ms\n");
    for (index, slice) in summary.slices.iter().enumerate() {
        let at = index as f64 * SLICE as f64 / 1e6;
        let _ = writeln!(text, "{at:.1},{},{:.3},{:.3}", slice.answers, slice.p50, slice.p99);
    }
    text
}

/// As ab's -e: for each percentage the time in which so many requests were served.
pub fn percentiles_csv(summary: &Summary) -> String {
    let mut text = String::from("Percentage served,Time in ms\n");
    for percent in 0..=100 {
        let _ = writeln!(text, "{percent},{:.3}", summary.percentile(f64::from(percent)));
    }
    text
}

/// As ab's -g: a line for each request, the fastest first. `began`: Unix time of the run's beginning.
pub fn gnuplot(requests: &[Times], began: f64) -> String {
    let mut sorted = requests.to_vec();
    sorted.sort_by_key(|request| request.total);
    let mut text = String::from("starttime\tseconds\tctime\tdtime\tttime\twait\n");
    let ms = |micros: u64| (micros + 500) / 1000;
    for Times { due, connect, total, wait } in sorted {
        let at = began + due as f64 / 1e6;
        let start = jiff::Timestamp::from_second(at as i64).unwrap_or_default().to_zoned(jiff::tz::TimeZone::system());
        let start = start.strftime("%a %b %d %H:%M:%S %Y");
        let (seconds, rest) = (at as u64, ms(total.saturating_sub(connect)));
        let _ = writeln!(text, "{start}\t{seconds}\t{}\t{rest}\t{}\t{}", ms(connect), ms(total), ms(wait));
    }
    text
}

/// HdrHistogram's percentile distribution, which its plotter and wrk2 have as well; milliseconds.
pub fn hgrm(latencies: &Histogram<u64>) -> String {
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut count = 0;
    for point in latencies.iter_quantiles(5) {
        count += point.count_since_last_iteration();
        let (value, quantile) = (point.value_iterated_to() as f64 / 1000.0, point.quantile_iterated_to());
        let inverse = if quantile < 1.0 { format!("{:14.2}", 1.0 / (1.0 - quantile)) } else { "           inf".into() };
        let _ = writeln!(text, "{value:12.3} {quantile:2.12} {count:10} {inverse}");
    }
    let ms = |micros: f64| micros / 1000.0;
    let (mean, deviation) = (ms(latencies.mean()), ms(latencies.stdev()));
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {:12.3}, Total count    = {:12}]", ms(latencies.max() as f64), latencies.len());
    let _ = writeln!(text, "#[Buckets = {:12}, SubBuckets     = {:12}]", latencies.buckets(), 2048);
    text
}
