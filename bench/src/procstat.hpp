// SPDX-License-Identifier: BSD-2-Clause
// Memory and processor time of a process tree, read from /proc.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

struct MemSample {
    uint64_t rss_kb = 0;     // summed over the tree; shared pages count once per process
    uint64_t pss_kb = 0;     // shared pages divided among their users
    uint64_t shared_kb = 0;  // Shared_Clean + Shared_Dirty, summed
    uint64_t private_kb = 0; // Private_Clean + Private_Dirty, summed
    uint64_t procs = 0;
};

struct CpuSample {
    double user_s = 0; // utime
    double sys_s = 0;  // stime
    double run_s = 0;  // scheduler run time in ns resolution (0 where not offered)
};

struct SysSample {
    double busy_s = 0;  // all processors, all processes
    double steal_s = 0; // taken by the hypervisor
    uint64_t tcp_mem_kb = 0;
    uint64_t slab_kb = 0;
};

inline std::string slurp(const std::string &path)
{
    FILE *f = fopen(path.c_str(), "r");
    if (!f) {
        return "";
    }
    std::string s;
    char buf[4096];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0) {
        s.append(buf, n);
    }
    fclose(f);
    return s;
}

inline std::vector<int> read_pids(const std::string &file)
{
    std::vector<int> v;
    std::istringstream is(slurp(file));
    int p;
    while (is >> p) {
        v.push_back(p);
    }
    return v;
}

// The given processes and everything below them.
inline std::vector<int> pid_tree(const std::vector<int> &roots)
{
    std::multimap<int, int> kids;
    if (DIR *d = opendir("/proc")) {
        while (dirent *e = readdir(d)) {
            int pid = atoi(e->d_name);
            if (pid <= 0) {
                continue;
            }
            std::string s = slurp("/proc/" + std::to_string(pid) + "/stat");
            size_t r = s.rfind(')');
            if (r == std::string::npos) {
                continue;
            }
            char st;
            int ppid = 0;
            if (sscanf(s.c_str() + r + 1, " %c %d", &st, &ppid) == 2) {
                kids.emplace(ppid, pid);
            }
        }
        closedir(d);
    }
    std::set<int> seen;
    std::vector<int> out, todo(roots);
    while (!todo.empty()) {
        int p = todo.back();
        todo.pop_back();
        if (!seen.insert(p).second || access(("/proc/" + std::to_string(p)).c_str(), F_OK) != 0) {
            continue;
        }
        out.push_back(p);
        auto r = kids.equal_range(p);
        for (auto it = r.first; it != r.second; ++it) {
            todo.push_back(it->second);
        }
    }
    return out;
}

inline MemSample mem_of(const std::vector<int> &pids)
{
    MemSample m;
    for (int p : pids) {
        std::istringstream is(slurp("/proc/" + std::to_string(p) + "/smaps_rollup"));
        std::string line;
        bool any = false;
        while (std::getline(is, line)) {
            unsigned long long kb;
            char key[64];
            if (sscanf(line.c_str(), "%63[^:]: %llu kB", key, &kb) != 2) {
                continue;
            }
            any = true;
            if (!strcmp(key, "Rss")) {
                m.rss_kb += kb;
            } else if (!strcmp(key, "Pss")) {
                m.pss_kb += kb;
            } else if (!strcmp(key, "Shared_Clean") || !strcmp(key, "Shared_Dirty")) {
                m.shared_kb += kb;
            } else if (!strcmp(key, "Private_Clean") || !strcmp(key, "Private_Dirty")) {
                m.private_kb += kb;
            }
        }
        m.procs += any;
    }
    return m;
}

inline CpuSample cpu_of(const std::vector<int> &pids)
{
    CpuSample c;
    const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
    for (int p : pids) {
        std::string base = "/proc/" + std::to_string(p);
        std::string s = slurp(base + "/stat");
        size_t r = s.rfind(')');
        if (r == std::string::npos) {
            continue;
        }
        std::istringstream is(s.substr(r + 1));
        std::string f;
        for (int i = 3; i <= 15 && (is >> f); i++) {
            if (i == 14) {
                c.user_s += atof(f.c_str()) * tick;
            } else if (i == 15) {
                c.sys_s += atof(f.c_str()) * tick;
            }
        }
        if (DIR *d = opendir((base + "/task").c_str())) {
            while (dirent *e = readdir(d)) {
                if (atoi(e->d_name) > 0) {
                    c.run_s += atof(slurp(base + "/task/" + e->d_name + "/schedstat").c_str()) * 1e-9;
                }
            }
            closedir(d);
        }
    }
    return c;
}

inline SysSample sys_sample()
{
    SysSample o;
    const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
    std::string s = slurp("/proc/stat");
    unsigned long long u = 0, n = 0, sy = 0, id = 0, io = 0, irq = 0, soft = 0, st = 0;
    if (sscanf(s.c_str(), "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &u, &n, &sy, &id, &io, &irq, &soft, &st) == 8) {
        o.busy_s = static_cast<double>(u + n + sy + irq + soft) * tick;
        o.steal_s = static_cast<double>(st) * tick;
    }
    s = slurp("/proc/net/sockstat");
    const char *q = strstr(s.c_str(), "TCP:");
    unsigned long long pages = 0;
    if (q && (q = strstr(q, " mem ")) && sscanf(q, " mem %llu", &pages) == 1) {
        o.tcp_mem_kb = pages * static_cast<unsigned long long>(sysconf(_SC_PAGESIZE)) / 1024;
    }
    s = slurp("/proc/meminfo");
    unsigned long long kb = 0;
    if ((q = strstr(s.c_str(), "\nSlab:")) && sscanf(q, "\nSlab: %llu", &kb) == 1) {
        o.slab_kb = kb;
    }
    return o;
}
