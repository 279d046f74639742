// SPDX-License-Identifier: BSD-2-Clause
// A handler on the loopback for tests: takes one POST per connection, keeps what it got, and answers what it is told.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace durable_test {

class HttpReceiver {
public:
    struct Request {
        std::string head;
        std::string body;
    };
    // Given the request and how many came before it, the whole answer; empty: the connection is held open unanswered.
    using Answer = std::function<std::string(const Request&, std::size_t)>;

    static std::string status(int code, const std::string& headers = {}) {
        return "HTTP/1.1 " + std::to_string(code) + " Whatever\r\n" + headers + "Content-Length: 0\r\n\r\n";
    }

    explicit HttpReceiver(
        Answer answer = [](const Request&, std::size_t) { return status(204); }, bool starts = true)
        : answer_(std::move(answer)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::listen(listener_, 128);
        socklen_t size = sizeof address;
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        if (starts) start();
    }

    // Connections wait until then: for tests that must fork before there are threads.
    void start() {
        thread_ = std::thread([this] { serve(); });
    }

    ~HttpReceiver() {
        stop_ = true;
        if (thread_.joinable()) thread_.join();
        for (const int held : held_) ::close(held);
        ::close(listener_);
    }

    std::string url(const std::string& path = "/hook") const {
        return "http://127.0.0.1:" + std::to_string(port_) + path;
    }

    std::vector<Request> requests() const {
        const std::lock_guard guard(mutex_);
        return requests_;
    }

    std::size_t count() const {
        const std::lock_guard guard(mutex_);
        return requests_.size();
    }

    Request last() const {
        const std::lock_guard guard(mutex_);
        return requests_.empty() ? Request() : requests_.back();
    }

    bool wait_for(std::size_t wanted, int seconds = 10) const {
        for (int i = 0; i < seconds * 100; ++i) {
            if (count() >= wanted) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }

    static std::string header(const Request& request, const std::string& name) {
        const std::size_t at = request.head.find("\r\n" + name + ": ");
        if (at == std::string::npos) return {};
        const std::size_t start = at + name.size() + 4;
        return request.head.substr(start, request.head.find("\r\n", start) - start);
    }

private:
    void serve() {
        while (!stop_) {
            pollfd ready{listener_, POLLIN, 0};
            if (::poll(&ready, 1, 20) <= 0) continue;
            const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (connection >= 0 && !talk(connection)) ::close(connection);
        }
    }

    // True: the connection is held open.
    bool talk(int connection) {
        std::string data;
        char block[65536];
        std::size_t wanted = std::string::npos;
        Request request;
        while (data.size() < wanted) {
            const ssize_t size = ::recv(connection, block, sizeof block, 0);
            if (size <= 0) return false;
            data.append(block, static_cast<std::size_t>(size));
            const std::size_t end = data.find("\r\n\r\n");
            if (wanted != std::string::npos || end == std::string::npos) continue;
            request.head = data.substr(0, end + 2);
            wanted = end + 4 + std::stoul("0" + header(request, "Content-Length"));
        }
        request.body = data.substr(request.head.size() + 2);
        std::size_t before = 0;
        {
            const std::lock_guard guard(mutex_);
            before = requests_.size();
            requests_.push_back(request);
        }
        const std::string answer = answer_(request, before);
        if (answer.empty()) {
            held_.push_back(connection);
            return true;
        }
        return ::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL) < 0;
    }

    Answer answer_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::atomic<bool> stop_{false};
    mutable std::mutex mutex_;
    std::vector<Request> requests_;
    std::vector<int> held_;
    std::thread thread_;
};

}  // namespace durable_test
