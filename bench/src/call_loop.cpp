// SPDX-License-Identifier: BSD-2-Clause
// call_loop: what a host call costs. Plays the client, the application and its host calls at once:
// two requests through nginx become two events, one of which waits for what the other publishes.
//
//   call_loop PORT APP_PORT ROUNDS
//
// nginx must serve /app/ (durable_object, proxy_pass to APP_PORT), /durable/ (durable_api), /return
// (return 200) and /worker (return 200 $pid). Prints one line of JSON: for calls at the same and at
// another worker the time from a publish to the answer of the wait, the rounds of publish and wait in
// a second, and the rounds of two /return requests over the same connections.

#include "hist.hpp"
#include "http_sse.hpp"

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

void prepare(int fd) {
    const int one = 1;
    const timeval limit{20, 0};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

// A kept-alive connection with one request on the way at a time.
class Connection {
public:
    explicit Connection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        prepare(fd_);
        const sockaddr_in address = loopback(port);
        if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("cannot connect");
    }
    ~Connection() { close(fd_); }
    Connection(const Connection&) = delete;

    void send_request(const std::string& method, const std::string& path, const std::string& token = "",
                      const std::string& body = "") {
        std::string text = method + " " + path + " HTTP/1.1\r\nHost: bench\r\n";
        if (!token.empty()) text += "Durable-Event: " + token + "\r\n";
        if (method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
        text += "\r\n" + body;
        if (send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) fail("cannot send");
    }

    // The body of a 2xx answer.
    std::string read_answer() {
        HttpHead head;
        BodyDecoder body;
        std::string text;
        char buffer[65536];
        while (!head.done() || !body.done()) {
            const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
            if (n <= 0 || head.bad()) fail("no answer");
            std::size_t used = 0;
            if (!head.done()) {
                used = head.feed(buffer, static_cast<std::size_t>(n));
                if (head.done()) body.start(head);
            }
            if (head.done()) {
                body.feed(buffer + used, static_cast<std::size_t>(n) - used, [&](const char* p, std::size_t k) { text.append(p, k); });
            }
        }
        if (head.status < 200 || head.status > 299) fail("status " + std::to_string(head.status) + ": " + text);
        return text;
    }

    std::string call(const std::string& method, const std::string& path, const std::string& token = "") {
        send_request(method, path, token);
        return read_answer();
    }

private:
    int fd_;
};

// Two running events: their clients' connections and their application's are kept open.
class Events {
public:
    Events(int port, int app_port) : port_(port), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const int one = 1;
        setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        const sockaddr_in address = loopback(app_port);
        if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listener_, 16) != 0) {
            fail("cannot listen");
        }
    }

    std::string start() {
        clients_.push_back(std::make_unique<Connection>(port_));
        clients_.back()->send_request("GET", "/app/");
        const int fd = accept(listener_, nullptr, nullptr);  // stays open: the event runs
        prepare(fd);
        std::string head;
        char buffer[4096];
        while (head.find("\r\n\r\n") == std::string::npos) {
            const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
            if (n <= 0) fail("no request reached the application");
            head.append(buffer, static_cast<std::size_t>(n));
        }
        const std::size_t at = head.find("\r\nDurable-Event: ");
        if (at == std::string::npos) fail("the application got no token");
        return head.substr(at + 17, head.find("\r\n", at + 2) - at - 17);
    }

private:
    int port_;
    int listener_;
    std::vector<std::unique_ptr<Connection>> clients_;
};

// A connection to the worker `pid`, or to any other.
std::unique_ptr<Connection> connect_to(int port, const std::string& pid, bool is_same) {
    for (int i = 0; i < 500; ++i) {
        auto connection = std::make_unique<Connection>(port);
        if ((connection->call("GET", "/worker") == pid) == is_same) return connection;
    }
    fail("no connection reached that worker");
}

struct Result {
    Hist wake;
    double calls_per_s, returns_per_s;
};

Result measure(Connection& waiter, Connection& publisher, const std::string& waiting, const std::string& publishing,
               const std::string& subscription, int rounds) {
    Result result;
    const std::string wait_path = "/durable/subscriptions/" + subscription + "/message?timeout=10000";
    const std::string text(100, 'x');
    // Blocks of both kinds in turn, so that what else the machine does falls on both.
    int64_t calls_ns = 0, returns_ns = 0;
    const int block = 100;
    for (int done = 0; done < rounds; done += block) {
        int64_t begin = now_ns();
        for (int i = 0; i < block; ++i) {
            waiter.send_request("GET", wait_path, waiting);
            publisher.send_request("POST", "/durable/channels/c/messages", publishing, text);
            publisher.read_answer();
            waiter.read_answer();
        }
        calls_ns += now_ns() - begin;
        begin = now_ns();
        for (int i = 0; i < block; ++i) {
            waiter.send_request("GET", "/return");
            publisher.send_request("POST", "/return", "", text);
            publisher.read_answer();
            waiter.read_answer();
        }
        returns_ns += now_ns() - begin;
    }
    for (int i = 0; i < rounds / 10; ++i) {
        waiter.send_request("GET", wait_path, waiting);
        usleep(2000);  // the wait stands before the publish comes
        const int64_t begin = now_ns();
        publisher.send_request("POST", "/durable/channels/c/messages", publishing, text);
        waiter.read_answer();
        result.wake.add(now_ns() - begin);
        publisher.read_answer();
    }
    result.calls_per_s = rounds * 1e9 / static_cast<double>(calls_ns);
    result.returns_per_s = rounds * 1e9 / static_cast<double>(returns_ns);
    return result;
}

void print(const char* name, const Result& result) {
    std::printf("\"%s\":{\"wake_p50_us\":%.1f,\"wake_p99_us\":%.1f,\"rounds_per_s\":%.0f,\"return_rounds_per_s\":%.0f}", name,
                static_cast<double>(result.wake.quantile(0.5)) / 1e3, static_cast<double>(result.wake.quantile(0.99)) / 1e3,
                result.calls_per_s, result.returns_per_s);
}

void run(int port, int app_port, int rounds) {
    Events events(port, app_port);
    const std::string waiting = events.start(), publishing = events.start();
    Connection waiter(port);
    const std::string pid = waiter.call("GET", "/worker");
    const std::string answer = waiter.call("POST", "/durable/channels/c/subscriptions", waiting);
    const std::string subscription = answer.substr(answer.find(':') + 2, 16);
    std::printf("{");
    for (const bool is_same : {true, false}) {
        const auto publisher = connect_to(port, pid, is_same);
        if (!is_same) std::printf(",");
        print(is_same ? "same" : "other", measure(waiter, *publisher, waiting, publishing, subscription, rounds));
    }
    std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fputs("usage: call_loop PORT APP_PORT ROUNDS\n", stderr);
        return 2;
    }
    alarm(240);
    try {
        run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]));
    } catch (const std::exception& e) {
        std::fprintf(stderr, "call_loop: %s\n", e.what());
        return 1;
    }
    return 0;
}
