//! Memory that the control groups of this process have left (cgroups(7)): a container's limit, or `MemoryMax=` of a service.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of one version that say how much memory a group may use and uses.
struct Files {
    /// As the mount table calls the file system.
    file_system: &'static str,
    limits: &'static [&'static str],
    usage: &'static str,
    /// The row of `memory.stat` with the pages of files that the kernel takes back before it ends a process.
    reclaimable: &'static str,
}

const VERSION_1: Files = Files {
    file_system: "cgroup",
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};
const VERSION_2: Files = Files {
    file_system: "cgroup2",
    // Above the second one the kernel slows processes down.
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    reclaimable: "inactive_file",
};

/// Bytes that this process may still use by its control groups and all their parents; `None` if none has a limit.
pub fn memory_left() -> Option<u64> {
    memory_left_in(Path::new("/"))
}

/// The same for a tree of files in the place of `/`.
fn memory_left_in(root: &Path) -> Option<u64> {
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let of_line = |line: &str| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let files = match controllers {
            "" => VERSION_2,
            list if list.split(',').any(|one| one == "memory") => VERSION_1,
            _ => return None,
        };
        let (mount, folder) = folder_of(group, &files, &mounts, root)?;
        let parents = folder.ancestors().take_while(|parent| parent.starts_with(&mount));
        parents.filter_map(|parent| files.left(parent)).min()
    };
    groups.lines().filter_map(of_line).min()
}

/// Where a version is mounted, and the folder of a group there. A container may see its own group as the mount's root, or
/// see it by its path outside, which is not there.
fn folder_of(group: &str, files: &Files, mounts: &str, root: &Path) -> Option<(PathBuf, PathBuf)> {
    let (mounted, point) = mounts.lines().find_map(|line| mount_of(line, files))?;
    let mount = root.join(point.trim_start_matches('/'));
    let below = Path::new(group).strip_prefix(mounted).ok();
    let folder = below.map(|below| mount.join(below)).filter(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(|| mount.clone());
    Some((mount, folder))
}

/// The group that is mounted, and where, of a line of the mount table (proc_pid_mountinfo(5)).
fn mount_of<'a>(line: &'a str, files: &Files) -> Option<(&'a str, &'a str)> {
    let (place, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let is_version = system.next() == Some(files.file_system);
    let has_memory = files.file_system == VERSION_2.file_system
        || system.nth(1).is_some_and(|options| options.split(',').any(|one| one == "memory"));
    let mut place = place.split(' ').skip(3);
    let found = (place.next()?, place.next()?);
    (is_version && has_memory).then_some(found)
}

impl Files {
    /// Bytes that a group has left; `None` without a limit.
    fn left(&self, folder: &Path) -> Option<u64> {
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let number = |file: &&str| read(file)?.trim().parse::<u64>().ok();
        let limit = self.limits.iter().filter_map(number).min()?;
        let usage = number(&self.usage)?;
        let stat = read("memory.stat").unwrap_or_default();
        let row =
            stat.lines().find_map(|row| row.strip_prefix(self.reclaimable)?.strip_prefix(' '));
        let reclaimable = row.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0);
        Some(limit.saturating_sub(usage.saturating_sub(reclaimable)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these files.
    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("wiresum-cgroup-{name}-{}", std::process::id()));
        for (file, text) in files {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a temporary folder");
            fs::write(file, text).expect("a temporary file");
        }
        root
    }

    fn left(name: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = tree(name, files);
        let left = memory_left_in(&root);
        fs::remove_dir_all(root).expect("it was written");
        left
    }

    const GROUP_2: (&str, &str) = ("proc/self/cgroup", "0::/pod/box\n");
    const MOUNT_2: (&str, &str) =
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");

    #[test]
    fn bounds_by_the_group_and_by_its_parents() {
        let own = [
            GROUP_2,
            MOUNT_2,
            ("sys/fs/cgroup/pod/box/memory.max", "1000\n"),
            ("sys/fs/cgroup/pod/box/memory.current", "700\n"),
            ("sys/fs/cgroup/pod/box/memory.stat", "anon 600\ninactive_file 100\n"),
        ];
        assert_eq!(left("own", &own), Some(400), "files that can be dropped are free");
        let parent =
            [("sys/fs/cgroup/pod/memory.max", "900"), ("sys/fs/cgroup/pod/memory.current", "850")];
        assert_eq!(left("parent", &[&own[..], &parent].concat()), Some(50));
        let high = [("sys/fs/cgroup/pod/box/memory.high", "610")];
        assert_eq!(left("high", &[&own[..], &high].concat()), Some(10));
    }

    #[test]
    fn has_no_bound_without_a_limit() {
        let files = [
            GROUP_2,
            MOUNT_2,
            ("sys/fs/cgroup/pod/box/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/box/memory.current", "700\n"),
        ];
        assert_eq!(left("max", &files), None);
        assert_eq!(left("nothing", &[("proc/self/cgroup", "")]), None);
    }

    #[test]
    fn reads_version_1_and_groups_that_a_container_sees_as_the_root() {
        let mounts = "\
            31 25 0:27 /docker/a1 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n\
            33 25 0:29 /docker/a1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let files = |group| {
            [
                ("proc/self/cgroup", group),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4000\n"),
                ("sys/fs/cgroup/memory/in/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/in/memory.usage_in_bytes", "100\n"),
            ]
        };
        assert_eq!(left("in", &files("3:cpu:/docker/a1\n5:memory:/docker/a1/in\n")), Some(1000));
        assert_eq!(left("root", &files("5:memory:/docker/a1\n")), Some(1000));
        assert_eq!(left("outside", &files("5:memory:/../elsewhere\n")), Some(1000));
        assert_eq!(left("other", &files("3:cpu:/docker/a1\n")), None);
    }
}
