// SPDX-License-Identifier: BSD-2-Clause
// plain_sse: the plain limit. One thread, no HTTP stack to speak of: answers
// GET /sub/NAME with SSE headers, and for POST /pub/NAME frames the body once
// and sends the same bytes to every socket of that channel, by send() or, with
// --io uring, by batches of io_uring sends. Not a server for real use.
//
// --fault drop=K|dup=K|swap=K spoils every K-th message for one subscriber, so
// that the checker of sse_load can itself be tested.

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>
#ifdef HAVE_URING
#include <liburing.h>
#endif

using Bytes = std::shared_ptr<const std::string>;

struct Channel {
    std::vector<int> fds;
    uint64_t seq = 0;
};

struct Queue { // what a full socket could not take yet
    std::deque<Bytes> items;
    size_t off = 0, bytes = 0;
};

struct Conn {
    bool open = false;
    Channel *channel = nullptr;
    uint32_t place = 0;            // index in channel->fds
    std::unique_ptr<std::string> in; // freed while idle
    std::unique_ptr<Queue> queue;
};

static const size_t kQueueMax = 64u << 20;
static int ep = -1;
static std::vector<Conn> conns;
static std::unordered_map<std::string, std::unique_ptr<Channel>> channels;
static bool use_uring;
#ifdef HAVE_URING
static io_uring ring;
static const unsigned ring_size = 4096;
#endif
static std::string fault_kind;
static uint64_t fault_every;
static uint64_t published;
static Bytes held; // swap: the message kept back
static volatile sig_atomic_t stop;

static void watch(int fd, uint32_t ev, int op)
{
    epoll_event e{};
    e.events = ev;
    e.data.fd = fd;
    epoll_ctl(ep, op, fd, &e);
}

static void close_conn(int fd)
{
    Conn &c = conns[static_cast<size_t>(fd)];
    if (!c.open) {
        return;
    }
    if (c.channel) {
        auto &v = c.channel->fds;
        v[c.place] = v.back();
        conns[static_cast<size_t>(v[c.place])].place = c.place;
        v.pop_back();
    }
    c = Conn();
    close(fd);
}

static void enqueue(int fd, const Bytes &b, size_t off)
{
    Conn &c = conns[static_cast<size_t>(fd)];
    if (!c.queue) {
        c.queue = std::make_unique<Queue>();
        c.queue->off = off;
        watch(fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
    }
    c.queue->items.push_back(b);
    c.queue->bytes += b->size();
}

static void drain(int fd)
{
    Conn &c = conns[static_cast<size_t>(fd)];
    while (c.queue && !c.queue->items.empty()) {
        const Bytes &b = c.queue->items.front();
        ssize_t n = send(fd, b->data() + c.queue->off, b->size() - c.queue->off, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno != EAGAIN) {
                close_conn(fd);
            }
            return;
        }
        c.queue->off += static_cast<size_t>(n);
        if (c.queue->off == b->size()) {
            c.queue->bytes -= b->size();
            c.queue->items.pop_front();
            c.queue->off = 0;
        }
    }
    c.queue.reset();
    watch(fd, EPOLLIN, EPOLL_CTL_MOD);
}

// The outcome of one send: n bytes taken, or -errno.
static void sent(int fd, const Bytes &b, ssize_t n, std::vector<int> &dead)
{
    if (n == static_cast<ssize_t>(b->size())) {
        return;
    }
    if (n >= 0 || n == -EAGAIN) {
        enqueue(fd, b, n > 0 ? static_cast<size_t>(n) : 0);
    } else {
        dead.push_back(fd);
    }
}

#ifdef HAVE_URING
static void reap(unsigned want, const Bytes &b, std::vector<int> &dead)
{
    while (want > 0) {
        io_uring_cqe *cqe;
        if (io_uring_wait_cqe(&ring, &cqe) != 0) {
            continue;
        }
        unsigned head, k = 0;
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            sent(static_cast<int>(io_uring_cqe_get_data64(cqe)), b, cqe->res, dead);
            k++;
        }
        io_uring_cq_advance(&ring, k);
        want -= k < want ? k : want;
    }
}
#endif

static void send_all(Channel &ch, const Bytes &b, int only, int except)
{
    std::vector<int> dead;
#ifdef HAVE_URING
    unsigned pending = 0;
#endif
    for (int fd : ch.fds) {
        if ((only >= 0 && fd != only) || fd == except) {
            continue;
        }
        Conn &c = conns[static_cast<size_t>(fd)];
        if (c.queue) {
            if (c.queue->bytes > kQueueMax) {
                dead.push_back(fd);
            } else {
                enqueue(fd, b, 0);
            }
            continue;
        }
        if (!use_uring) {
            ssize_t n = send(fd, b->data(), b->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            sent(fd, b, n < 0 ? -errno : n, dead);
            continue;
        }
#ifdef HAVE_URING
        io_uring_sqe *sqe = io_uring_get_sqe(&ring);
        io_uring_prep_send(sqe, fd, b->data(), b->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        io_uring_sqe_set_data64(sqe, static_cast<uint64_t>(fd));
        if (++pending == ring_size) {
            io_uring_submit(&ring);
            reap(pending, b, dead);
            pending = 0;
        }
#endif
    }
#ifdef HAVE_URING
    if (pending) {
        io_uring_submit_and_wait(&ring, pending);
        reap(pending, b, dead);
    }
#endif
    for (int fd : dead) {
        close_conn(fd);
    }
}

static void publish(const std::string &name, const char *body, size_t len)
{
    published++;
    auto it = channels.find(name);
    if (it == channels.end() || it->second->fds.empty()) {
        return;
    }
    Channel &ch = *it->second;
    char head[64], size[24];
    int h = snprintf(head, sizeof head, "id: %llu\ndata: ", static_cast<unsigned long long>(++ch.seq));
    int s = snprintf(size, sizeof size, "%zx\r\n", static_cast<size_t>(h) + len + 2);
    auto m = std::make_shared<std::string>();
    m->reserve(static_cast<size_t>(h + s) + len + 8);
    m->append(size, static_cast<size_t>(s)).append(head, static_cast<size_t>(h)).append(body, len).append("\n\n\r\n");

    const int victim = ch.fds[ch.fds.size() / 2];
    if (fault_every && published % fault_every == 0) {
        if (fault_kind == "drop") {
            send_all(ch, m, -1, victim);
            return;
        }
        if (fault_kind == "dup") {
            send_all(ch, m, -1, -1);
            send_all(ch, m, victim, -1);
            return;
        }
        if (fault_kind == "swap") {
            send_all(ch, m, -1, victim);
            held = m;
            return;
        }
    }
    send_all(ch, m, -1, -1);
    if (held) {
        Bytes late;
        late.swap(held);
        send_all(ch, late, victim, -1);
    }
}

static void on_input(int fd)
{
    char buf[65536];
    ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        close_conn(fd);
        return;
    }
    Conn *c = &conns[static_cast<size_t>(fd)];
    if (c->channel) {
        return; // a subscriber has nothing more to say
    }
    if (!c->in) {
        c->in = std::make_unique<std::string>();
    }
    c->in->append(buf, static_cast<size_t>(n));
    while (c->in && !c->in->empty()) {
        std::string &in = *c->in;
        size_t e = in.find("\r\n\r\n");
        if (e == std::string::npos) {
            return;
        }
        size_t len = 0;
        for (size_t i = in.find("\r\n") + 2; i < e; i = in.find("\r\n", i) + 2) {
            if (strncasecmp(in.c_str() + i, "content-length:", 15) == 0) {
                len = static_cast<size_t>(atol(in.c_str() + i + 15));
            }
        }
        if (in.size() < e + 4 + len) {
            return;
        }
        size_t sp = in.find(' '), sp2 = in.find(' ', sp + 1);
        std::string path = in.substr(sp + 1, sp2 - sp - 1);
        const char *answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        if (in.compare(0, sp, "GET") == 0 && path.compare(0, 5, "/sub/") == 0) {
            auto &ch = channels[path.substr(5)];
            if (!ch) {
                ch = std::make_unique<Channel>();
            }
            c->channel = ch.get();
            c->place = static_cast<uint32_t>(ch->fds.size());
            ch->fds.push_back(fd);
            c->in.reset();
            answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n";
        } else {
            if (in.compare(0, sp, "POST") == 0 && path.compare(0, 5, "/pub/") == 0) {
                publish(path.substr(5), in.data() + e + 4, len);
                answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            }
            in.erase(0, e + 4 + len);
        }
        if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0) {
            close_conn(fd);
            return;
        }
    }
}

static void on_term(int) { stop = 1; }

int main(int argc, char **argv)
{
    int port = 0;
    const char *pid_file = nullptr;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string a = argv[i], v = argv[i + 1];
        if (a == "--port") {
            port = atoi(v.c_str());
        } else if (a == "--pid-file") {
            pid_file = argv[i + 1];
        } else if (a == "--io") {
            use_uring = v == "uring";
        } else if (a == "--fault" && v.find('=') != std::string::npos) {
            fault_kind = v.substr(0, v.find('='));
            fault_every = strtoull(v.c_str() + v.find('=') + 1, nullptr, 10);
        } else {
            port = 0;
            break;
        }
    }
    if (port <= 0) {
        fputs("usage: plain_sse --port P [--pid-file F] [--io epoll|uring] [--fault drop=K|dup=K|swap=K]\n", stderr);
        return 2;
    }
    struct sigaction sa = {};
    sa.sa_handler = on_term;
    sigaction(SIGTERM, &sa, nullptr);
    sigaction(SIGINT, &sa, nullptr);
    signal(SIGPIPE, SIG_IGN);
    rlimit rl = {65536, 65536};
    if (setrlimit(RLIMIT_NOFILE, &rl) != 0) { // not allowed to raise the hard limit
        getrlimit(RLIMIT_NOFILE, &rl);
        rl.rlim_cur = rl.rlim_max;
        setrlimit(RLIMIT_NOFILE, &rl);
    }
    conns.resize(rl.rlim_cur);
#ifdef HAVE_URING
    if (use_uring) {
        io_uring_params p = {};
        p.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
        if (io_uring_queue_init_params(ring_size, &ring, &p) != 0 && io_uring_queue_init(ring_size, &ring, 0) != 0) {
            perror("io_uring");
            return 1;
        }
    }
#else
    if (use_uring) {
        fputs("plain_sse was built without liburing\n", stderr);
        return 1;
    }
#endif
    int ls = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in a = {};
    a.sin_family = AF_INET;
    a.sin_port = htons(static_cast<uint16_t>(port));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(ls, reinterpret_cast<sockaddr *>(&a), sizeof a) != 0 || listen(ls, 4096) != 0) {
        perror("listen");
        return 1;
    }
    ep = epoll_create1(EPOLL_CLOEXEC);
    watch(ls, EPOLLIN, EPOLL_CTL_ADD);
    if (pid_file) {
        if (FILE *f = fopen(pid_file, "w")) {
            fprintf(f, "%d\n", getpid());
            fclose(f);
        }
    }
    epoll_event ev[512];
    while (!stop) {
        int n = epoll_wait(ep, ev, 512, 1000);
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd;
            if (fd == ls) {
                for (int k = 0; k < 64; k++) {
                    int s = accept4(ls, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
                    if (s < 0) {
                        break;
                    }
                    if (static_cast<size_t>(s) >= conns.size()) {
                        close(s);
                        continue;
                    }
                    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    conns[static_cast<size_t>(s)].open = true;
                    watch(s, EPOLLIN, EPOLL_CTL_ADD);
                }
                continue;
            }
            if (!conns[static_cast<size_t>(fd)].open) {
                continue;
            }
            if (ev[i].events & EPOLLOUT) {
                drain(fd);
            }
            if (conns[static_cast<size_t>(fd)].open && (ev[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))) {
                on_input(fd);
            }
        }
    }
    return 0;
}
