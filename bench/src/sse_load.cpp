// SPDX-License-Identifier: BSD-2-Clause
// sse_load: one-thread load generator and exact checker for SSE pub/sub
// servers. Opens N subscribers over S channels, publishes M messages, checks
// that every subscriber got every message exactly once and in order, and
// prints one line of JSON. See ../README.md for what each figure means.

#include "hist.hpp"
#include "http_sse.hpp"
#include "procstat.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <ctime>
#include <deque>
#include <fcntl.h>
#include <getopt.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

static int64_t now_ns()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

static void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("sse_load: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

// ------------------------------------------------------------- options ----

struct Url {
    std::string host, path;
    sockaddr_in addr{};
};

struct Opts {
    std::string mode = "fanout";
    std::string sub_url, pub_url, pub_method = "POST", pub_body = "{msg}";
    std::vector<std::string> sub_headers, pub_headers;
    std::string pid_file, channel_prefix, label;
    int subs = -1, channels = -1, bytes = 100, pub_conns = 4, outstanding = -1;
    int64_t messages = 1000, warm = -1;
    double rate = 0, duration = 10, timeout = 60, settle = 0.5, linger = 0.2, idle_s = 2;
    int connect_window = 128;
    double slow_share = -1;
    int slow_rcvbuf = 4096;
    bool drain_slow = true;
    bool verify_body = true;
};

static Url parse_url(const std::string &u)
{
    Url r;
    if (u.compare(0, 7, "http://") != 0) {
        die("URL must start with http://: %s", u.c_str());
    }
    size_t s = u.find('/', 7);
    r.host = u.substr(7, s == std::string::npos ? std::string::npos : s - 7);
    r.path = s == std::string::npos ? "/" : u.substr(s);
    size_t c = r.host.find(':');
    std::string ip = r.host.substr(0, c);
    int port = c == std::string::npos ? 80 : atoi(r.host.c_str() + c + 1);
    r.addr.sin_family = AF_INET;
    r.addr.sin_port = htons(static_cast<uint16_t>(port));
    if (inet_pton(AF_INET, ip.c_str(), &r.addr.sin_addr) != 1) {
        die("the host must be an IPv4 address: %s", ip.c_str());
    }
    if ((ntohl(r.addr.sin_addr.s_addr) >> 24) != 127) {
        die("only loopback addresses are allowed: %s", ip.c_str());
    }
    return r;
}

static void replace_all(std::string &s, const std::string &what, const std::string &with)
{
    for (size_t i = 0; (i = s.find(what, i)) != std::string::npos; i += with.size()) {
        s.replace(i, what.size(), with);
    }
}

// ------------------------------------------------------------- message ----

// "IDX8 PUB3 SEQ8 CHAN6 TIME16 pad": fixed width, so that it needs no escaping
// in any envelope and can be checked byte for byte.
static const size_t kHeadLen = 46;

static void put_digits(char *p, int width, uint64_t v)
{
    for (int i = width - 1; i >= 0; i--) {
        p[i] = static_cast<char>('0' + v % 10);
        v /= 10;
    }
}

static bool get_digits(const char *p, int width, uint64_t &v)
{
    v = 0;
    for (int i = 0; i < width; i++) {
        unsigned d = static_cast<unsigned char>(p[i]) - '0';
        if (d > 9) {
            return false;
        }
        v = v * 10 + d;
    }
    return true;
}

// ---------------------------------------------------------------- load ----

struct Sub {
    int fd = -1;
    uint8_t state = 0; // 0 unused, 1 connecting, 2 waiting for the head, 3 live, 4 closed
    bool slow = false;
    uint32_t channel = 0;
    uint64_t got = 0;
    uint64_t order = 1469598103934665603ull;
    HttpHead head;
    BodyDecoder body;
    SseParser sse;
    std::unique_ptr<std::set<std::pair<uint32_t, uint32_t>>> missing;
};

struct Pub {
    int fd = -1;
    bool connected = false, busy = false, want_out = false;
    size_t off = 0;
    std::string out;
    int64_t msg = -1, sent_at = 0;
    HttpHead head;
    BodyDecoder body;
    uint32_t cursor = 0; // next of this publisher's channels
};

class Load {
  public:
    explicit Load(const Opts &o) : o_(o) {}
    int run();

  private:
    enum : uint64_t { kSub = 1, kPub = 2, kTimer = 3 };

    // set-up
    int new_socket(const Url &u, uint32_t group, int rcvbuf);
    void connect_all();
    void start_connect(uint32_t i);
    void open_pub(uint32_t p);
    void watch(int fd, uint32_t ev, uint64_t tag, bool mod);

    // events
    template <class Done> bool loop(double seconds, bool stall_guard, Done &&done);
    void on_sub(uint32_t i, uint32_t ev);
    void on_pub(uint32_t p, uint32_t ev);
    void on_event(Sub &s, uint32_t i, std::string_view d, int64_t now);
    void sub_closed(uint32_t i);
    void pub_done(uint32_t p);

    // publishing
    void pump();
    bool can_send() const;
    void send_msg(uint32_t p, uint32_t ch, int64_t due);
    void flush_pub(uint32_t p);
    void phase(int64_t last, double rate, double seconds);
    void complete(int64_t g, int64_t now);
    void drain_slow();

    std::string channel_name(uint32_t c) const
    {
        char b[16];
        snprintf(b, sizeof b, "%06u", c);
        return o_.channel_prefix + b;
    }

    void report(bool ok);

    Opts o_;
    Url sub_url_, pub_url_;
    int ep_ = -1, timer_ = -1;
    std::vector<Sub> subs_;
    std::vector<Pub> pubs_;
    std::vector<uint32_t> next_; // expected sequence number per (subscriber, publisher)
    std::vector<uint32_t> seq_;  // next sequence number per (channel, publisher)
    std::vector<uint32_t> fast_on_; // reading subscribers per channel
    std::vector<uint32_t> remaining_;
    std::vector<int64_t> sent_at_;
    std::vector<char> buf_;
    std::string pad_;
    std::string pub_head_; // constant request headers
    int src_base_ = 1;

    // progress
    uint32_t established_ = 0, connecting_ = 0, next_connect_ = 0;
    int64_t published_ = 0, answered_ = 0, completed_ = 0, last_ = 0, warm_ = 0;
    double rate_ = 0;
    int64_t next_due_ = 0, due_count_ = 0, stop_at_ = 0, phase_start_ = 0;
    std::deque<int64_t> due_;                    // one channel: any free publisher
    std::vector<std::deque<int64_t>> due_of_;    // many channels: pinned publisher
    bool pump_wanted_ = false, publishing_ = false;
    int64_t last_progress_ = 0, last_delivery_ = 0;

    // results
    bool measuring_ = false, slow_draining_ = false;
    uint64_t delivered_ = 0, dup_ = 0, reordered_ = 0, gaps_ = 0, lost_ = 0, corrupt_ = 0, wrong_channel_ = 0;
    uint64_t closed_early_ = 0, bad_head_ = 0, connect_errors_ = 0, pub_bad_ = 0, pub_errors_ = 0, pub_reconnects_ = 0;
    uint64_t events_other_ = 0, wire_bytes_ = 0, recv_calls_ = 0;
    uint64_t slow_closed_ = 0, slow_complete_ = 0, slow_short_ = 0, slow_got_ = 0;
    int first_bad_status_ = 0;
    std::string first_error_;
    Hist lat_, fan_, rtt_;
    double connect_s_ = 0, wall_s_ = 0, pub_wall_s_ = 0, idle_cpu_ = 0;
    double connect_cpu_ = 0, client_cpu_ = 0, foreign_ = 0, steal_ = 0;
    CpuSample cpu_;
    MemSample mem_start_, mem_idle_, mem_end_, mem_after_;
    SysSample sys_start_, sys_idle_, sys_end_;
    std::vector<int> roots_, tree_;
    bool same_order_ = true, timed_out_ = false, stalled_ = false;
};

static double client_cpu_s()
{
    rusage r;
    getrusage(RUSAGE_SELF, &r);
    return static_cast<double>(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static double cpu_total(const CpuSample &c) { return c.run_s > 0 ? c.run_s : c.user_s + c.sys_s; }

void Load::watch(int fd, uint32_t ev, uint64_t tag, bool mod)
{
    epoll_event e{};
    e.events = ev;
    e.data.u64 = tag;
    if (epoll_ctl(ep_, mod ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e) != 0) {
        die("epoll_ctl: %s", strerror(errno));
    }
}

// Each group of 20,000 sockets gets its own 127.x.y.z source address, and each
// run other addresses, so that neither many sockets nor lingering closed ones
// use up the ephemeral ports.
int Load::new_socket(const Url &u, uint32_t group, int rcvbuf)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        die("socket: %s", strerror(errno));
    }
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (rcvbuf > 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof rcvbuf);
    }
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl((127u << 24) | (2u << 16) | (static_cast<uint32_t>(src_base_) << 8) | (1 + group % 250));
    if (bind(fd, reinterpret_cast<sockaddr *>(&a), sizeof a) != 0) {
        die("bind: %s", strerror(errno));
    }
    if (connect(fd, reinterpret_cast<const sockaddr *>(&u.addr), sizeof u.addr) != 0 && errno != EINPROGRESS) {
        die("connect: %s", strerror(errno));
    }
    return fd;
}

void Load::start_connect(uint32_t i)
{
    Sub &s = subs_[i];
    s.fd = new_socket(sub_url_, i / 20000, s.slow ? o_.slow_rcvbuf : 0);
    s.state = 1;
    connecting_++;
    watch(s.fd, EPOLLOUT, kSub << 32 | i, false);
}

void Load::connect_all()
{
    while (next_connect_ < subs_.size() && connecting_ < static_cast<uint32_t>(o_.connect_window)) {
        start_connect(next_connect_++);
    }
}

void Load::sub_closed(uint32_t i)
{
    Sub &s = subs_[i];
    if (s.state == 4) {
        return;
    }
    if (s.state < 3) {
        connecting_--;
        connect_errors_++;
    } else if (s.slow) {
        slow_closed_++;
    } else {
        closed_early_++;
    }
    close(s.fd);
    s.fd = -1;
    s.state = 4;
}

void Load::on_sub(uint32_t i, uint32_t ev)
{
    Sub &s = subs_[i];
    if (s.state == 4) {
        return;
    }
    if (s.state == 1) {
        int err = 0;
        socklen_t l = sizeof err;
        getsockopt(s.fd, SOL_SOCKET, SO_ERROR, &err, &l);
        if (err || (ev & (EPOLLERR | EPOLLHUP))) {
            if (first_error_.empty()) {
                first_error_ = std::string("subscriber connect: ") + strerror(err);
            }
            sub_closed(i);
            return;
        }
        std::string path = sub_url_.path;
        replace_all(path, "{ch}", channel_name(s.channel));
        std::string r = "GET " + path + " HTTP/1.1\r\nHost: " + sub_url_.host + "\r\nAccept: text/event-stream\r\n";
        for (auto &h : o_.sub_headers) {
            r += h + "\r\n";
        }
        r += "\r\n";
        if (send(s.fd, r.data(), r.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(r.size())) {
            sub_closed(i);
            return;
        }
        s.state = 2;
        watch(s.fd, EPOLLIN, kSub << 32 | i, true);
        return;
    }
    ssize_t n = recv(s.fd, buf_.data(), buf_.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        if (first_error_.empty() && !s.slow) {
            first_error_ = n == 0 ? "subscriber closed by the server" : std::string("subscriber: ") + strerror(errno);
        }
        sub_closed(i);
        return;
    }
    const int64_t now = now_ns();
    if (measuring_) {
        recv_calls_++;
        wire_bytes_ += static_cast<uint64_t>(n);
    }
    const char *p = buf_.data();
    size_t len = static_cast<size_t>(n), used = 0;
    if (s.state == 2) {
        used = s.head.feed(p, len);
        if (s.head.bad() || (s.head.done() && (s.head.status != 200 || !s.head.event_stream))) {
            bad_head_++;
            if (first_error_.empty()) {
                first_error_ = "subscriber got status " + std::to_string(s.head.status) +
                               (s.head.event_stream ? "" : ", not an event stream");
            }
            sub_closed(i);
            return;
        }
        if (!s.head.done()) {
            return;
        }
        s.body.start(s.head);
        s.state = 3;
        connecting_--;
        established_++;
        if (s.slow) { // stops reading from here on
            epoll_ctl(ep_, EPOLL_CTL_DEL, s.fd, nullptr);
        }
    }
    if (used < len) {
        s.body.feed(p + used, len - used, [&](const char *q, size_t k) {
            s.sse.feed(q, k, [&](std::string_view d) { on_event(s, i, d, now); });
        });
        if (s.body.bad() || s.body.done()) {
            if (first_error_.empty()) {
                first_error_ = s.body.bad() ? "broken chunked framing" : "the event stream ended";
            }
            sub_closed(i);
        }
    }
}

void Load::on_event(Sub &s, uint32_t i, std::string_view d, int64_t now)
{
    uint64_t idx, p, seq, ch, ts;
    const char *c = d.data();
    if (d.size() < kHeadLen || !get_digits(c, 8, idx) || !get_digits(c + 9, 3, p) || !get_digits(c + 13, 8, seq) ||
        !get_digits(c + 22, 6, ch) || !get_digits(c + 29, 16, ts)) {
        if (s.slow) {
            return; // told that it was too slow
        }
        events_other_++;
        if (first_error_.empty()) {
            first_error_ = "unknown event: " + std::string(d.substr(0, 80));
        }
        return;
    }
    if (idx >= static_cast<uint64_t>(published_) || p >= pubs_.size() || d.size() != static_cast<size_t>(o_.bytes) ||
        (o_.verify_body && memcmp(c + kHeadLen, pad_.data(), d.size() - kHeadLen) != 0)) {
        corrupt_++;
        return;
    }
    if (ch != s.channel) {
        wrong_channel_++;
        return;
    }
    const size_t slot = o_.channels == 1 ? i * pubs_.size() + p : i;
    uint32_t &next = next_[slot];
    const uint32_t q = static_cast<uint32_t>(seq);
    if (q == next) {
        next++;
    } else if (q > next) { // a hole: remember exactly which numbers are out
        gaps_++;
        if (!s.missing) {
            s.missing = std::make_unique<std::set<std::pair<uint32_t, uint32_t>>>();
        }
        for (uint32_t k = next; k < q && s.missing->size() < 1000000; k++) {
            s.missing->emplace(static_cast<uint32_t>(p), k);
        }
        next = q + 1;
    } else if (s.missing && s.missing->erase({static_cast<uint32_t>(p), q})) {
        reordered_++;
    } else {
        dup_++;
        return;
    }
    s.got++;
    s.order = (s.order ^ idx) * 1099511628211ull;
    if (slow_draining_ || s.slow) {
        return;
    }
    const int64_t g = static_cast<int64_t>(idx);
    last_progress_ = last_delivery_ = now;
    if (g >= warm_) {
        delivered_++;
        lat_.add(now - static_cast<int64_t>(ts));
    }
    if (--remaining_[idx] == 0) {
        complete(g, now);
    }
}

void Load::complete(int64_t g, int64_t now)
{
    completed_++;
    pump_wanted_ = true;
    if (g >= warm_ && o_.subs > 0) {
        fan_.add(now - sent_at_[static_cast<size_t>(g)]);
    }
}

// ------------------------------------------------------------ publish -----

void Load::open_pub(uint32_t p)
{
    Pub &b = pubs_[p];
    b.fd = new_socket(pub_url_, 200 + p % 50, 0);
    b.connected = b.want_out = false;
    watch(b.fd, EPOLLOUT, kPub << 32 | p, false);
}

bool Load::can_send() const
{
    if (published_ >= last_) {
        return false;
    }
    return o_.outstanding <= 0 || published_ - completed_ < o_.outstanding;
}

void Load::pump()
{
    pump_wanted_ = false;
    if (!publishing_) {
        return;
    }
    const int64_t now = now_ns();
    if (now >= stop_at_ && published_ < last_) { // time is up: what is out is all
        last_ = published_;
        due_.clear();
        for (auto &d : due_of_) {
            d.clear();
        }
        return;
    }
    const uint32_t P = static_cast<uint32_t>(pubs_.size()), S = static_cast<uint32_t>(o_.channels);
    if (rate_ > 0) {
        const int64_t left = last_ - due_count_;
        for (int64_t k = 0; k < left && next_due_ <= now; k++) {
            if (S == 1) {
                due_.push_back(next_due_);
            } else {
                due_of_[static_cast<size_t>(due_count_ % P)].push_back(next_due_);
            }
            due_count_++;
            next_due_ = phase_start_ + static_cast<int64_t>(1e9 / rate_ * static_cast<double>(due_count_ - warm_));
        }
        if (due_count_ < last_) {
            itimerspec t{};
            t.it_value.tv_sec = next_due_ / 1000000000;
            t.it_value.tv_nsec = next_due_ % 1000000000;
            timerfd_settime(timer_, TFD_TIMER_ABSTIME, &t, nullptr);
        }
    }
    for (uint32_t p = 0; p < P; p++) {
        Pub &b = pubs_[p];
        if (!b.connected || b.busy) {
            continue;
        }
        if (rate_ == 0 && !can_send()) {
            break;
        }
        int64_t due = now;
        if (rate_ > 0) {
            auto &d = S == 1 ? due_ : due_of_[p];
            if (d.empty()) {
                continue;
            }
            due = d.front();
            d.pop_front();
        }
        uint32_t ch = 0;
        if (S > 1) { // publisher p owns the channels p, p+P, p+2P...
            ch = p + P * b.cursor;
            b.cursor++;
            if (p + P * b.cursor >= S) {
                b.cursor = 0;
            }
        }
        send_msg(p, ch, due);
    }
}

void Load::send_msg(uint32_t p, uint32_t ch, int64_t due)
{
    Pub &b = pubs_[p];
    const int64_t g = published_++;
    const size_t slot = o_.channels == 1 ? p : ch;
    const uint32_t seq = seq_[slot]++;
    std::string msg(static_cast<size_t>(o_.bytes), ' ');
    put_digits(&msg[0], 8, static_cast<uint64_t>(g));
    put_digits(&msg[9], 3, p);
    put_digits(&msg[13], 8, seq);
    put_digits(&msg[22], 6, ch);
    put_digits(&msg[29], 16, static_cast<uint64_t>(due));
    memcpy(&msg[kHeadLen], pad_.data(), msg.size() - kHeadLen);

    const std::string name = channel_name(ch);
    std::string path = pub_url_.path;
    replace_all(path, "{ch}", name);
    std::string body = o_.pub_body;
    replace_all(body, "{ch}", name);
    replace_all(body, "{msg}", msg);
    b.out = o_.pub_method;
    b.out += ' ';
    b.out += path;
    b.out += " HTTP/1.1\r\n";
    b.out += pub_head_;
    if (o_.pub_method != "GET") {
        b.out += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
        b.out += body;
    } else {
        b.out += "\r\n";
    }
    sent_at_[static_cast<size_t>(g)] = due;
    remaining_[static_cast<size_t>(g)] = fast_on_[ch];
    b.off = 0;
    b.busy = true;
    b.msg = g;
    b.head.reset();
    b.sent_at = now_ns();
    flush_pub(p);
}

void Load::flush_pub(uint32_t p)
{
    Pub &b = pubs_[p];
    while (b.off < b.out.size()) {
        ssize_t n = send(b.fd, b.out.data() + b.off, b.out.size() - b.off, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN && !b.want_out) {
                b.want_out = true;
                watch(b.fd, EPOLLIN | EPOLLOUT, kPub << 32 | p, true);
            }
            if (errno == EAGAIN) {
                return;
            }
            break; // the read side reports it
        }
        b.off += static_cast<size_t>(n);
    }
    if (b.want_out) {
        b.want_out = false;
        watch(b.fd, EPOLLIN, kPub << 32 | p, true);
    }
}

void Load::pub_done(uint32_t p)
{
    Pub &b = pubs_[p];
    const int64_t now = now_ns();
    b.busy = false;
    answered_++;
    last_progress_ = now;
    pump_wanted_ = true;
    if (b.msg >= warm_) {
        rtt_.add(now - b.sent_at);
    }
    if (b.head.status < 200 || b.head.status > 299) {
        pub_bad_++;
        if (!first_bad_status_) {
            first_bad_status_ = b.head.status;
        }
    }
    if (remaining_[static_cast<size_t>(b.msg)] == 0 && o_.subs == 0) {
        complete(b.msg, now);
    }
    if (b.head.close) {
        close(b.fd);
        pub_reconnects_++;
        open_pub(p);
    }
}

void Load::on_pub(uint32_t p, uint32_t ev)
{
    Pub &b = pubs_[p];
    if (!b.connected) {
        int err = 0;
        socklen_t l = sizeof err;
        getsockopt(b.fd, SOL_SOCKET, SO_ERROR, &err, &l);
        if (err) {
            die("publisher connect: %s", strerror(err));
        }
        b.connected = true;
        pump_wanted_ = true;
        watch(b.fd, EPOLLIN, kPub << 32 | p, true);
        return;
    }
    if ((ev & EPOLLOUT) && b.busy && b.off < b.out.size()) {
        flush_pub(p);
    }
    if (!(ev & (EPOLLIN | EPOLLERR | EPOLLHUP))) {
        return;
    }
    ssize_t n = recv(b.fd, buf_.data(), buf_.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        close(b.fd);
        if (b.busy) {
            if (b.head.done() && b.head.content_length < 0 && !b.head.chunked) {
                pub_done(p); // the body ended with the connection
                if (!b.head.close) {
                    pub_reconnects_++;
                    open_pub(p);
                }
                return;
            }
            pub_errors_++;
            if (first_error_.empty()) {
                first_error_ = "publisher connection closed before the answer";
            }
            b.busy = false;
            answered_++;
        }
        pub_reconnects_++;
        open_pub(p);
        return;
    }
    const char *q = buf_.data();
    size_t len = static_cast<size_t>(n), used = 0;
    while (used < len && b.busy) {
        if (!b.head.done()) {
            used += b.head.feed(q + used, len - used);
            if (b.head.bad()) {
                die("broken answer to a publish request");
            }
            if (!b.head.done()) {
                return;
            }
            b.body.start(b.head);
        }
        if (!b.body.done()) {
            used += b.body.feed(q + used, len - used, [](const char *, size_t) {});
        }
        if (b.body.done()) {
            pub_done(p);
            break;
        }
    }
}

// --------------------------------------------------------------- loop -----

template <class Done> bool Load::loop(double seconds, bool stall_guard, Done &&done)
{
    const int64_t end = now_ns() + static_cast<int64_t>(seconds * 1e9);
    last_progress_ = now_ns();
    epoll_event ev[512];
    while (!done()) {
        int64_t now = now_ns();
        if (now >= end) {
            return false;
        }
        if (stall_guard && static_cast<double>(now - last_progress_) > std::min(8.0, o_.timeout) * 1e9) {
            stalled_ = true;
            return false;
        }
        int64_t wait = std::min<int64_t>((end - now) / 1000000 + 1, 200);
        int n = epoll_wait(ep_, ev, 512, static_cast<int>(wait));
        for (int k = 0; k < n; k++) {
            const uint32_t id = static_cast<uint32_t>(ev[k].data.u64);
            switch (ev[k].data.u64 >> 32) {
            case kSub:
                on_sub(id, ev[k].events);
                break;
            case kPub:
                on_pub(id, ev[k].events);
                break;
            default: {
                uint64_t x;
                if (read(timer_, &x, sizeof x) == sizeof x) {
                    pump_wanted_ = true;
                }
            }
            }
        }
        if (pump_wanted_ || n == 0) {
            pump();
        }
        if (next_connect_ < subs_.size()) {
            connect_all();
        }
    }
    return true;
}

// Publishes up to message number `last` and waits until all have arrived.
void Load::phase(int64_t last, double rate, double seconds)
{
    last_ = last;
    rate_ = rate;
    due_count_ = published_;
    phase_start_ = next_due_ = now_ns() + (rate > 0 ? 1000000 : 0);
    stop_at_ = now_ns() + static_cast<int64_t>(seconds * 1e9);
    publishing_ = true;
    pump_wanted_ = true;
    pump();
    const double grace = o_.timeout;
    if (!loop(seconds + grace, true, [&] { return published_ >= last_ && answered_ >= published_ && completed_ >= published_; })) {
        if (!stalled_) {
            timed_out_ = true;
        }
    }
    publishing_ = false;
}

void Load::drain_slow()
{
    slow_draining_ = true;
    const uint64_t want = static_cast<uint64_t>(published_);
    std::vector<uint32_t> slow;
    for (uint32_t i = 0; i < subs_.size(); i++) {
        if (subs_[i].slow && subs_[i].state == 3) {
            slow.push_back(i);
            watch(subs_[i].fd, EPOLLIN, kSub << 32 | i, false);
        }
    }
    loop(5.0, false, [&] {
        for (uint32_t i : slow) {
            if (subs_[i].state == 3 && subs_[i].got < want) {
                return false;
            }
        }
        return true;
    });
    for (uint32_t i = 0; i < subs_.size(); i++) {
        if (!subs_[i].slow) {
            continue;
        }
        slow_got_ += subs_[i].got;
        if (subs_[i].got >= want) {
            slow_complete_++;
        } else {
            slow_short_++;
        }
    }
}

// ---------------------------------------------------------------- run -----

int Load::run()
{
    sub_url_ = o_.subs > 0 ? parse_url(o_.sub_url) : Url();
    if (o_.mode != "idle") {
        pub_url_ = parse_url(o_.pub_url);
    }
    ep_ = epoll_create1(EPOLL_CLOEXEC);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    watch(timer_, EPOLLIN, kTimer << 32, false);
    buf_.resize(256 * 1024);
    for (int i = 0; i < o_.bytes; i++) {
        pad_ += static_cast<char>('a' + i % 26);
    }
    src_base_ = static_cast<int>(1 + (static_cast<uint64_t>(now_ns()) / 1000000 + static_cast<uint64_t>(getpid())) % 250);
    if (o_.channel_prefix.empty()) { // a fresh name each run: no stored messages from earlier ones
        char b[32];
        snprintf(b, sizeof b, "b%llx", static_cast<unsigned long long>(now_ns() / 1000));
        o_.channel_prefix = b;
    }
    pub_head_ = "Host: " + pub_url_.host + "\r\n";
    for (auto &h : o_.pub_headers) {
        pub_head_ += h + "\r\n";
    }

    const size_t N = static_cast<size_t>(o_.subs), S = static_cast<size_t>(o_.channels), P = static_cast<size_t>(o_.pub_conns);
    subs_.resize(N);
    pubs_.resize(o_.mode == "idle" ? 0 : P);
    next_.assign(S == 1 ? N * P : N, 0);
    seq_.assign(S == 1 ? P : S, 0);
    fast_on_.assign(S, 0);
    due_of_.resize(P);
    double acc = 0;
    for (size_t i = 0; i < N; i++) {
        subs_[i].channel = static_cast<uint32_t>(i % S);
        acc += o_.slow_share;
        if (acc >= 1.0 - 1e-9) {
            acc -= 1.0;
            subs_[i].slow = true;
        } else {
            fast_on_[i % S]++;
        }
    }

    roots_ = read_pids(o_.pid_file);
    tree_ = pid_tree(roots_);
    mem_start_ = mem_of(tree_);
    sys_start_ = sys_sample();

    if (N > 0) {
        const double cpu0 = cpu_total(cpu_of(tree_));
        const int64_t t0 = now_ns();
        connect_all();
        if (!loop(o_.timeout, false, [&] { return established_ + connect_errors_ >= N; })) {
            timed_out_ = true;
        }
        connect_s_ = static_cast<double>(now_ns() - t0) * 1e-9;
        connect_cpu_ = cpu_total(cpu_of(tree_)) - cpu0;
        if (established_ < N) {
            report(false);
            return 1;
        }
        loop(o_.settle, false, [] { return false; });
        tree_ = pid_tree(roots_);
        mem_idle_ = mem_of(tree_);
        sys_idle_ = sys_sample();
    }

    if (o_.mode == "idle") {
        const double cpu0 = cpu_total(cpu_of(tree_));
        const int64_t t0 = now_ns();
        loop(o_.idle_s, false, [] { return false; });
        idle_cpu_ = (cpu_total(cpu_of(tree_)) - cpu0) / (static_cast<double>(now_ns() - t0) * 1e-9);
        mem_end_ = mem_of(tree_);
    } else {
        remaining_.assign(static_cast<size_t>(o_.warm + o_.messages), 0);
        sent_at_.assign(static_cast<size_t>(o_.warm + o_.messages), 0);
        for (uint32_t p = 0; p < P; p++) {
            open_pub(p);
        }
        warm_ = o_.warm;
        if (warm_ > 0) {
            phase(warm_, 0, o_.timeout);
            warm_ = published_;
        }
        if (!timed_out_ && !stalled_) {
            tree_ = pid_tree(roots_);
            const CpuSample c0 = cpu_of(tree_);
            const SysSample s0 = sys_sample();
            const double me0 = client_cpu_s();
            const int64_t t0 = now_ns();
            measuring_ = true;
            phase(warm_ + o_.messages, o_.rate, o_.duration);
            measuring_ = false;
            const int64_t t1 = now_ns();
            const double me1 = client_cpu_s();
            const CpuSample c1 = cpu_of(tree_);
            const SysSample s1 = sys_sample();
            wall_s_ = static_cast<double>((N && delivered_ ? last_delivery_ : t1) - t0) * 1e-9;
            pub_wall_s_ = static_cast<double>(t1 - t0) * 1e-9;
            cpu_.user_s = c1.user_s - c0.user_s;
            cpu_.sys_s = c1.sys_s - c0.sys_s;
            cpu_.run_s = c1.run_s - c0.run_s;
            client_cpu_ = me1 - me0;
            foreign_ = std::max(0.0, (s1.busy_s - s0.busy_s) - client_cpu_ - cpu_total(cpu_));
            steal_ = s1.steal_s - s0.steal_s;
        }
        // Late duplicates would show up now.
        loop(o_.linger, false, [] { return false; });
        tree_ = pid_tree(roots_);
        mem_end_ = mem_of(tree_);
        sys_end_ = sys_sample();
        if (o_.slow_share > 0 && o_.drain_slow) {
            drain_slow();
        }
    }

    std::vector<uint64_t> order(S, 0);
    for (auto &s : subs_) {
        if (s.slow) {
            continue;
        }
        if (order[s.channel] == 0) {
            order[s.channel] = s.order;
        } else if (order[s.channel] != s.order) {
            same_order_ = false;
        }
    }

    for (auto &s : subs_) {
        if (s.fd >= 0) {
            close(s.fd);
        }
    }
    for (auto &b : pubs_) {
        if (b.fd >= 0) {
            close(b.fd);
        }
    }
    timespec ts{0, 0};
    ts.tv_sec = static_cast<time_t>(o_.settle);
    ts.tv_nsec = static_cast<long>((o_.settle - static_cast<double>(ts.tv_sec)) * 1e9);
    nanosleep(&ts, nullptr);
    mem_after_ = mem_of(pid_tree(roots_));

    // What should have come, counted over the whole run, warm-up included.
    uint64_t want = 0, got = 0;
    for (size_t c = 0; c < S; c++) {
        uint64_t n = 0;
        if (S == 1) {
            n = static_cast<uint64_t>(published_);
        } else {
            n = seq_[c];
        }
        want += n * fast_on_[c];
    }
    for (auto &s : subs_) {
        got += s.slow ? 0 : s.got;
    }
    lost_ = want > got ? want - got : 0;
    const bool ok = !timed_out_ && !stalled_ && want == got && !dup_ && !reordered_ && !corrupt_ && !wrong_channel_ &&
                    !closed_early_ && !events_other_ && !pub_bad_ && !pub_errors_ && !connect_errors_;
    report(ok);
    return ok ? 0 : 1;
}

// ------------------------------------------------------------- report -----

static std::string hist_json(const Hist &h)
{
    char b[256];
    snprintf(b, sizeof b, "{\"n\":%llu,\"mean\":%.1f,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}",
             static_cast<unsigned long long>(h.count()), h.mean() / 1e3, static_cast<double>(h.quantile(0.5)) / 1e3,
             static_cast<double>(h.quantile(0.9)) / 1e3, static_cast<double>(h.quantile(0.99)) / 1e3,
             static_cast<double>(h.quantile(0.999)) / 1e3, static_cast<double>(h.max()) / 1e3);
    return b;
}

static std::string mem_json(const MemSample &m)
{
    char b[256];
    snprintf(b, sizeof b, "{\"rss_kb\":%llu,\"pss_kb\":%llu,\"shared_kb\":%llu,\"private_kb\":%llu,\"procs\":%llu}",
             static_cast<unsigned long long>(m.rss_kb), static_cast<unsigned long long>(m.pss_kb),
             static_cast<unsigned long long>(m.shared_kb), static_cast<unsigned long long>(m.private_kb),
             static_cast<unsigned long long>(m.procs));
    return b;
}

static std::string quoted(const std::string &s)
{
    std::string o = "\"";
    for (char c : s) {
        if (c == '"' || c == '\\') {
            o += '\\';
            o += c;
        } else if (static_cast<unsigned char>(c) < 32) {
            o += ' ';
        } else {
            o += c;
        }
    }
    return o + "\"";
}

void Load::report(bool ok)
{
    std::string j = "{";
    auto add = [&](const char *k, const std::string &v) {
        if (j.size() > 1) {
            j += ',';
        }
        j += '"';
        j += k;
        j += "\":" + v;
    };
    auto num = [&](const char *k, double v, int digits) {
        char b[64];
        snprintf(b, sizeof b, "%.*f", digits, v);
        add(k, b);
    };
    auto cnt = [&](const char *k, uint64_t v) { add(k, std::to_string(v)); };

    const int64_t m = std::max<int64_t>(0, published_ - warm_);
    const double n = o_.subs > 0 ? o_.subs : 1;
    add("ok", ok ? "true" : "false");
    if (!o_.label.empty()) {
        add("label", quoted(o_.label));
    }
    add("mode", quoted(o_.mode));
    cnt("subs", static_cast<uint64_t>(o_.subs));
    cnt("channels", static_cast<uint64_t>(o_.channels));
    cnt("bytes", static_cast<uint64_t>(o_.bytes));
    cnt("messages", static_cast<uint64_t>(m));
    cnt("warmup", static_cast<uint64_t>(warm_));
    num("rate", o_.rate, 1);
    cnt("pub_conns", pubs_.size());
    cnt("outstanding", static_cast<uint64_t>(std::max(0, o_.outstanding)));
    add("first_error", quoted(first_error_));

    num("connect_s", connect_s_, 4);
    num("connects_per_s", connect_s_ > 0 ? established_ / connect_s_ : 0, 0);
    num("connect_cpu_us", established_ ? connect_cpu_ * 1e6 / established_ : 0, 2);

    cnt("delivered", delivered_);
    cnt("lost", lost_);
    cnt("dup", dup_);
    cnt("reordered", reordered_);
    cnt("gaps", gaps_);
    cnt("corrupt", corrupt_);
    cnt("wrong_channel", wrong_channel_);
    cnt("unknown_events", events_other_);
    cnt("closed_early", closed_early_);
    cnt("connect_errors", connect_errors_);
    cnt("bad_heads", bad_head_);
    cnt("pub_bad_status", pub_bad_);
    cnt("first_bad_status", static_cast<uint64_t>(first_bad_status_));
    cnt("pub_errors", pub_errors_);
    cnt("pub_reconnects", pub_reconnects_);
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> holes; // (publisher, number) -> subscribers without it
    for (auto &x : subs_) {
        if (x.missing && !x.slow) {
            for (auto &h : *x.missing) {
                holes[h]++;
            }
        }
    }
    cnt("missing_messages", holes.size());
    if (!holes.empty()) {
        add("first_missing", quoted("number " + std::to_string(holes.begin()->first.second) + " of publisher " +
                                    std::to_string(holes.begin()->first.first) + " at " +
                                    std::to_string(holes.begin()->second) + " subscribers"));
    }
    add("same_order", same_order_ ? "true" : "false");
    add("timed_out", timed_out_ ? "true" : "false");
    add("stalled", stalled_ ? "true" : "false");

    num("wall_s", wall_s_, 4);
    num("delivered_per_s", wall_s_ > 0 ? static_cast<double>(delivered_) / wall_s_ : 0, 0);
    num("publish_per_s", pub_wall_s_ > 0 ? static_cast<double>(m) / pub_wall_s_ : 0, 1);
    cnt("wire_bytes", wire_bytes_);
    num("wire_bytes_per_msg", delivered_ ? static_cast<double>(wire_bytes_) / static_cast<double>(delivered_) : 0, 1);
    num("msgs_per_recv", recv_calls_ ? static_cast<double>(delivered_) / static_cast<double>(recv_calls_) : 0, 2);
    add("lat_us", hist_json(lat_));
    add("fanout_us", hist_json(fan_));
    add("pub_rtt_us", hist_json(rtt_));

    num("cpu_user_s", cpu_.user_s, 3);
    num("cpu_sys_s", cpu_.sys_s, 3);
    num("cpu_s", cpu_total(cpu_), 4);
    num("cpu_us_per_delivery", delivered_ ? cpu_total(cpu_) * 1e6 / static_cast<double>(delivered_) : 0, 3);
    num("cpu_us_per_publish", m ? cpu_total(cpu_) * 1e6 / static_cast<double>(m) : 0, 3);
    num("idle_cpu", idle_cpu_, 4);
    num("client_cpu_s", client_cpu_, 3);
    num("foreign_cpu_share", pub_wall_s_ > 0 ? foreign_ / (pub_wall_s_ * static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN))) : 0, 4);
    num("steal_s", steal_, 3);

    add("mem_start", mem_json(mem_start_));
    add("mem_idle", mem_json(mem_idle_));
    add("mem_end", mem_json(mem_end_));
    add("mem_after", mem_json(mem_after_));
    auto per = [&](uint64_t a, uint64_t b) { return (static_cast<double>(a) - static_cast<double>(b)) * 1024 / n; };
    num("rss_per_sub", o_.subs > 0 ? per(mem_idle_.rss_kb, mem_start_.rss_kb) : 0, 0);
    num("pss_per_sub", o_.subs > 0 ? per(mem_idle_.pss_kb, mem_start_.pss_kb) : 0, 0);
    num("slab_per_sub", o_.subs > 0 ? per(sys_idle_.slab_kb, sys_start_.slab_kb) : 0, 0);
    cnt("tcp_mem_end_kb", sys_end_.tcp_mem_kb);
    if (o_.slow_share > 0) {
        cnt("slow_closed", slow_closed_);
        cnt("slow_complete", slow_complete_);
        cnt("slow_short", slow_short_);
        cnt("slow_got", slow_got_);
    }
    j += "}";
    puts(j.c_str());
    fflush(stdout);
}

// --------------------------------------------------------------- main -----

static const char kUsage[] =
    "usage: sse_load --mode idle|fanout|many|publish0|slow --sub-url URL --pub-url URL [options]\n"
    "  URLs and the body may hold {ch}; the body may hold {msg}.\n"
    "  --subs N --channels S --messages M --bytes B   work\n"
    "  --rate R         publish per second, 0: as fast as possible (default 0)\n"
    "  --pub-conns W    publisher connections, one request in flight on each (4)\n"
    "  --outstanding K  at rate 0: messages not yet at every subscriber (8; 0: no bound)\n"
    "  --duration T     stop publishing after T seconds (10)\n"
    "  --timeout T      give up after T seconds more (60)\n"
    "  --warm M         uncounted messages first (default: 20, or one per channel)\n"
    "  --pub-method M --pub-body TEMPLATE --pub-header H --sub-header H\n"
    "  --pid-file F     process ids of the server; the trees below them are measured\n"
    "  --slow-share X   share of subscribers that stop reading (slow: 0.1)\n"
    "  --slow-rcvbuf B  their receive buffer (4096)\n"
    "  --idle-seconds T --settle T --linger T --connect-window N --prefix P --label L\n";

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    Opts o;
    enum {
        kMode = 1000, kSubUrl, kPubUrl, kMethod, kBody, kPubHeader, kSubHeader, kPidFile, kSubs, kChannels, kMessages,
        kBytes, kRate, kConns, kOutstanding, kDuration, kTimeout, kWarm, kShare, kRcvbuf, kIdle, kSettle, kLinger,
        kWindow, kPrefix, kLabel, kHelp
    };
    static const option longs[] = {
        {"mode", 1, nullptr, kMode}, {"sub-url", 1, nullptr, kSubUrl}, {"pub-url", 1, nullptr, kPubUrl},
        {"pub-method", 1, nullptr, kMethod}, {"pub-body", 1, nullptr, kBody}, {"pub-header", 1, nullptr, kPubHeader},
        {"sub-header", 1, nullptr, kSubHeader}, {"pid-file", 1, nullptr, kPidFile}, {"subs", 1, nullptr, kSubs},
        {"channels", 1, nullptr, kChannels}, {"messages", 1, nullptr, kMessages}, {"bytes", 1, nullptr, kBytes},
        {"rate", 1, nullptr, kRate}, {"pub-conns", 1, nullptr, kConns}, {"outstanding", 1, nullptr, kOutstanding},
        {"duration", 1, nullptr, kDuration}, {"timeout", 1, nullptr, kTimeout}, {"warm", 1, nullptr, kWarm},
        {"slow-share", 1, nullptr, kShare}, {"slow-rcvbuf", 1, nullptr, kRcvbuf}, {"idle-seconds", 1, nullptr, kIdle},
        {"settle", 1, nullptr, kSettle}, {"linger", 1, nullptr, kLinger}, {"connect-window", 1, nullptr, kWindow},
        {"prefix", 1, nullptr, kPrefix}, {"label", 1, nullptr, kLabel}, {"help", 0, nullptr, kHelp},
        {nullptr, 0, nullptr, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", longs, nullptr)) != -1) {
        switch (c) {
        case kMode: o.mode = optarg; break;
        case kSubUrl: o.sub_url = optarg; break;
        case kPubUrl: o.pub_url = optarg; break;
        case kMethod: o.pub_method = optarg; break;
        case kBody: o.pub_body = optarg; break;
        case kPubHeader: o.pub_headers.push_back(optarg); break;
        case kSubHeader: o.sub_headers.push_back(optarg); break;
        case kPidFile: o.pid_file = optarg; break;
        case kSubs: o.subs = atoi(optarg); break;
        case kChannels: o.channels = atoi(optarg); break;
        case kMessages: o.messages = atoll(optarg); break;
        case kBytes: o.bytes = atoi(optarg); break;
        case kRate: o.rate = atof(optarg); break;
        case kConns: o.pub_conns = atoi(optarg); break;
        case kOutstanding: o.outstanding = atoi(optarg); break;
        case kDuration: o.duration = atof(optarg); break;
        case kTimeout: o.timeout = atof(optarg); break;
        case kWarm: o.warm = atoll(optarg); break;
        case kShare: o.slow_share = atof(optarg); break;
        case kRcvbuf: o.slow_rcvbuf = atoi(optarg); break;
        case kIdle: o.idle_s = atof(optarg); break;
        case kSettle: o.settle = atof(optarg); break;
        case kLinger: o.linger = atof(optarg); break;
        case kWindow: o.connect_window = atoi(optarg); break;
        case kPrefix: o.channel_prefix = optarg; break;
        case kLabel: o.label = optarg; break;
        default: fputs(kUsage, stderr); return c == kHelp ? 0 : 2;
        }
    }
    const bool idle = o.mode == "idle", fanout = o.mode == "fanout", many = o.mode == "many", p0 = o.mode == "publish0",
               slow = o.mode == "slow";
    if (!idle && !fanout && !many && !p0 && !slow) {
        fputs(kUsage, stderr);
        return 2;
    }
    if (o.subs < 0) {
        o.subs = p0 ? 0 : 1000;
    }
    if (p0 && o.subs != 0) {
        die("publish0 has no subscribers");
    }
    if (o.channels < 0) {
        o.channels = many ? o.subs : p0 ? 1000 : 1;
    }
    if (o.slow_share < 0) {
        o.slow_share = slow ? 0.1 : 0;
    }
    if (o.outstanding < 0) {
        o.outstanding = p0 ? 0 : many ? 64 : 8;
    }
    if (o.warm < 0) {
        o.warm = o.channels > 1 ? o.channels : 20;
    }
    if (o.channels < 1 || o.channels > 999999 || o.subs > 100000 || o.pub_conns < 1 || o.pub_conns > 999 ||
        o.bytes < static_cast<int>(kHeadLen) || o.bytes > 1000000 || o.messages < 1 || o.messages + o.warm > 50000000 ||
        o.rate < 0 || o.duration <= 0 || o.duration > 600 || o.timeout <= 0 || o.timeout > 600 || o.connect_window < 1) {
        die("an option is out of range (bytes must be at least %zu)", kHeadLen);
    }
    if (o.channels > 1 && o.channels < o.pub_conns) {
        o.pub_conns = o.channels;
    }
    const rlim_t need = static_cast<rlim_t>(o.subs + o.pub_conns + 100);
    rlimit rl;
    getrlimit(RLIMIT_NOFILE, &rl);
    if (rl.rlim_cur < need) {
        rl.rlim_cur = need;
        rl.rlim_max = std::max(rl.rlim_max, need);
        if (setrlimit(RLIMIT_NOFILE, &rl) != 0) {
            die("cannot raise the open-file limit to %llu (the hard limit is too low): %s",
                static_cast<unsigned long long>(need), strerror(errno));
        }
    }
    alarm(static_cast<unsigned>(o.duration + 3 * o.timeout + o.idle_s + 60)); // last resort
    Load l(o);
    return l.run();
}
