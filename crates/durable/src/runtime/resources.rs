//! The machine's memory and CPU, as far as this process may use them.

use std::fs;

/// What is in use; what is not known is absent and holds nobody back.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Resources {
    /// Memory in use, in bytes.
    pub memory_used: Option<u64>,
    /// Memory that may be used, in bytes.
    pub memory_limit: Option<u64>,
    /// Pressure on the CPU, in percent.
    pub cpu_percent: Option<f64>,
}

/// Tells what is in use.
pub trait ResourceGauge: Send + Sync + 'static {
    /// As of now.
    fn read(&self) -> Resources;
}

/// Linux: the container's limits (cgroup v2), else the machine's.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResources;

impl ResourceGauge for SystemResources {
    fn read(&self) -> Resources {
        let text = |path: &str| fs::read_to_string(path).ok();
        let memory = container_memory(text).or_else(|| machine_memory(text));
        Resources {
            memory_used: memory.map(|(used, _)| used),
            memory_limit: memory.map(|(_, limit)| limit),
            cpu_percent: cpu_pressure(text).or_else(|| cpu_load(text)),
        }
    }
}

/// Used and limit. Pages of files that nobody uses are given up when needed, so they do not count.
fn container_memory(text: impl Fn(&str) -> Option<String>) -> Option<(u64, u64)> {
    // "max" where there is no limit, which is no number.
    let limit = text("/sys/fs/cgroup/memory.max")?.trim().parse().ok()?;
    let used: u64 = text("/sys/fs/cgroup/memory.current")?.trim().parse().ok()?;
    let stat = text("/sys/fs/cgroup/memory.stat").unwrap_or_default();
    let cached = field(&stat, "inactive_file").unwrap_or(0);
    Some((used.saturating_sub(cached), limit))
}

fn machine_memory(text: impl Fn(&str) -> Option<String>) -> Option<(u64, u64)> {
    let meminfo = text("/proc/meminfo")?;
    let total = field(&meminfo, "MemTotal:")?;
    let available = field(&meminfo, "MemAvailable:")?;
    Some((total.saturating_sub(available) * 1024, total * 1024))
}

/// Share of the last ten seconds in which something waited for a CPU.
fn cpu_pressure(text: impl Fn(&str) -> Option<String>) -> Option<f64> {
    let pressure = text("/proc/pressure/cpu")?;
    let some = pressure.lines().find(|line| line.starts_with("some"))?;
    let average = some
        .split_whitespace()
        .find_map(|word| word.strip_prefix("avg10="))?;
    average.parse().ok()
}

/// Runnable threads for each CPU, over the last minute.
#[allow(clippy::cast_precision_loss, reason = "a number of CPUs")]
fn cpu_load(text: impl Fn(&str) -> Option<String>) -> Option<f64> {
    let load: f64 = text("/proc/loadavg")?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    let cpus = std::thread::available_parallelism().ok()?.get();
    Some(100.0 * load / cpus as f64)
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + Copy + 'a {
        move |path| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_owned())
        }
    }

    #[test]
    fn container_with_a_limit_counts_without_its_idle_cache() {
        let container = files(&[
            ("/sys/fs/cgroup/memory.max", "1000\n"),
            ("/sys/fs/cgroup/memory.current", "900\n"),
            (
                "/sys/fs/cgroup/memory.stat",
                "anon 500\ninactive_file 300\n",
            ),
        ]);
        assert_eq!(container_memory(container), Some((600, 1000)));
    }

    #[test]
    fn container_without_a_limit_leaves_it_to_the_machine() {
        let machine = files(&[
            ("/sys/fs/cgroup/memory.max", "max\n"),
            ("/sys/fs/cgroup/memory.current", "900\n"),
            (
                "/proc/meminfo",
                "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n",
            ),
        ]);
        assert_eq!(container_memory(machine), None);
        assert_eq!(machine_memory(machine), Some((60 * 1024, 100 * 1024)));
    }

    #[test]
    fn cpu_pressure_is_the_ten_seconds_average() {
        let text = "some avg10=12.50 avg60=1.00 avg300=0.00 total=1\nfull avg10=99.00 avg60=0 avg300=0 total=0\n";
        assert_eq!(
            cpu_pressure(files(&[("/proc/pressure/cpu", text)])),
            Some(12.5)
        );
        assert_eq!(cpu_pressure(files(&[])), None);
    }
}
