//! How much memory a process uses, where the system reports it.

use std::fs;

/// What the process has written in memory, in MB (rounded up): files that are mapped can be read again, and do not count. `None` if the
/// process has ended, or on a system without `/proc`.
pub(super) fn used_mb(pid: u32) -> Option<u64> {
    in_status(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// `RssAnon` and `RssShmem` (proc_pid_status(5)).
fn in_status(status: &str) -> Option<u64> {
    let kb = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    Some((kb("RssAnon:")? + kb("RssShmem:")?).div_ceil(1_024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_do_not_count() {
        let status = "Name:\tbootstrap\nVmRSS:\t  90112 kB\nRssAnon:\t   20480 kB\nRssFile:\t   69631 kB\nRssShmem:\t       1 kB\n";
        assert_eq!(in_status(status), Some(21));
        assert_eq!(in_status("Name:\tzombie\nState:\tZ (zombie)\n"), None);
    }
}
