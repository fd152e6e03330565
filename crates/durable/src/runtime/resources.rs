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

/// Linux: the limits of the process's control group (cgroup v2 or v1, its own or one above it), else the machine's.
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

/// Where a version of control groups keeps what is said of memory.
struct Groups {
    /// Where the groups are mounted.
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Within `memory.stat`: pages of files that nobody uses. They are given up when needed, so they do not count as used.
    cached: &'static str,
}

const V2: Groups = Groups {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    cached: "inactive_file",
};

const V1: Groups = Groups {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: "total_inactive_file",
};

/// Used and limit of the group that leaves the least, of those that this process is in.
fn container_memory(text: impl Fn(&str) -> Option<String>) -> Option<(u64, u64)> {
    let own = text("/proc/self/cgroup").unwrap_or_default();
    let named = own.lines().filter_map(group_of);
    // Its own group may be mounted as the root, under whatever name it has outside.
    let all = named.chain([(V2, "/"), (V1, "/")]);
    // Without a limit: "max", or a number beyond all memory.
    let machine = machine_memory(&text).map_or(u64::MAX, |(_, total)| total);
    all.flat_map(|(groups, path)| with_those_above(&groups, path, &text))
        .filter(|(_, limit)| *limit < machine)
        .min_by_key(|(used, limit)| limit.saturating_sub(*used))
}

/// A line of `/proc/self/cgroup`: number, controllers, path; v2 has no controllers.
fn group_of(line: &str) -> Option<(Groups, &str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    if controllers.is_empty() {
        Some((V2, path))
    } else if controllers.split(',').any(|name| name == "memory") {
        Some((V1, path))
    } else {
        None
    }
}

/// What a group and each of those above it say, as far as they say something.
fn with_those_above(
    groups: &Groups,
    path: &str,
    text: impl Fn(&str) -> Option<String>,
) -> Vec<(u64, u64)> {
    let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
    let mut found = Vec::new();
    let mut path = path.trim_end_matches('/');
    loop {
        let file = |name: &str| format!("{}{path}/{name}", groups.root);
        if let (Some(limit), Some(used)) = (number(&file(groups.limit)), number(&file(groups.used)))
        {
            let stat = text(&file("memory.stat")).unwrap_or_default();
            let cached = field(&stat, groups.cached).unwrap_or(0);
            found.push((used.saturating_sub(cached), limit));
        }
        match path.rsplit_once('/') {
            Some((above, _)) => path = above,
            None => return found,
        }
    }
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
    fn of_nested_groups_the_tightest_counts() {
        let nested = files(&[
            ("/proc/self/cgroup", "0::/app/worker\n"),
            ("/sys/fs/cgroup/app/worker/memory.max", "max\n"),
            ("/sys/fs/cgroup/app/worker/memory.current", "700\n"),
            ("/sys/fs/cgroup/app/memory.max", "1000\n"),
            ("/sys/fs/cgroup/app/memory.current", "800\n"),
            ("/sys/fs/cgroup/memory.max", "5000\n"),
            ("/sys/fs/cgroup/memory.current", "900\n"),
        ]);
        assert_eq!(container_memory(nested), Some((800, 1000)));
    }

    #[test]
    fn first_version_counts_too_and_its_no_limit_is_none() {
        let group = "5:cpu:/x\n4:cpuacct,memory:/docker/abc\n";
        let limit = |limit| {
            let all = [
                ("/proc/self/cgroup", group),
                // Named from outside, mounted as the root inside.
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", limit),
                ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "900\n"),
                (
                    "/sys/fs/cgroup/memory/memory.stat",
                    "inactive_file 1\ntotal_inactive_file 300\n",
                ),
                ("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 40 kB\n"),
            ];
            container_memory(files(&all))
        };
        assert_eq!(limit("1000\n"), Some((600, 1000)));
        assert_eq!(limit("9223372036854771712\n"), None);
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
