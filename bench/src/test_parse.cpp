// SPDX-License-Identifier: BSD-2-Clause
// Checks the parsers on every way to cut the input in two, and byte by byte.
#include "hist.hpp"
#include "http_sse.hpp"
#include <cstdio>
#include <vector>

static int failures;

#define CHECK(c)                                                   \
    do {                                                           \
        if (!(c)) {                                                \
            printf("FAIL line %d: %s\n", __LINE__, #c);            \
            failures++;                                            \
        }                                                          \
    } while (0)

struct Whole {
    HttpHead head;
    BodyDecoder body;
    SseParser sse;
    std::vector<std::string> events;

    void feed(const char *p, size_t n)
    {
        size_t i = 0;
        if (!head.done()) {
            i = head.feed(p, n);
            if (head.done()) {
                body.start(head);
            }
        }
        if (head.done() && i < n) {
            body.feed(p + i, n - i, [&](const char *q, size_t k) {
                sse.feed(q, k, [&](std::string_view d) { events.emplace_back(d); });
            });
        }
    }
};

static std::string chunked(const std::string &body, size_t piece, const char *ext)
{
    std::string o;
    char b[64];
    for (size_t i = 0; i < body.size(); i += piece) {
        std::string part = body.substr(i, piece);
        snprintf(b, sizeof b, "%zX%s\r\n", part.size(), ext);
        o += b + part + "\r\n";
    }
    return o + "0\r\nX-Trailer: 1\r\n\r\n";
}

static void expect(const std::string &wire, const std::vector<std::string> &want, bool ends)
{
    auto judge = [&](Whole &w) {
        CHECK(!w.head.bad());
        CHECK(!w.body.bad());
        CHECK(w.head.done());
        CHECK(w.body.done() == ends);
        CHECK(w.events == want);
    };
    for (size_t cut = 0; cut <= wire.size(); cut++) {
        Whole w; // each part in its own heap block, so that stale views are caught
        std::string a = wire.substr(0, cut), b = wire.substr(cut);
        w.feed(a.data(), a.size());
        a.assign(a.size(), '#');
        w.feed(b.data(), b.size());
        judge(w);
    }
    Whole w;
    for (char c : wire) {
        std::string one(1, c);
        w.feed(one.data(), 1);
    }
    judge(w);
}

int main()
{
    const std::string sse = ": hello\n\n"
                            "id: 1\ndata: one\n\n"
                            "data: two\ndata: lines\n\n"
                            "event: x\r\ndata:nospace\r\n\r\n"
                            "data: cr\r\r"
                            "data\n\n"
                            "data: \n\n"
                            "id: 7\n\n"
                            "retry: 10\ndata:  lead\n: c\nignored: 1\n\n"
                            "data: never dispatched\n";
    const std::vector<std::string> want = {"one", "two\nlines", "nospace", "cr", "", "", " lead"};
    const std::string h = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";

    expect(h + "\r\n" + sse, want, false);
    expect(h + "Content-Length: " + std::to_string(sse.size()) + "\r\n\r\n" + sse, want, true);
    for (size_t piece : {1, 2, 3, 7, 16, 1000}) {
        expect(h + "transfer-ENCODING: Chunked\r\n\r\n" + chunked(sse, piece, ""), want, true);
        expect(h + "Transfer-Encoding: chunked\r\n\r\n" + chunked(sse, piece, ";a=b"), want, true);
    }
    expect("HTTP/1.1 100 Continue\r\n\r\n" + h + "\r\n" + sse, want, false);
    expect(h + "\r\n\xEF\xBB\xBF" "data: bom\n\n", {"bom"}, false);

    {
        HttpHead x;
        x.feed("garbage garbage\r\n", 17);
        CHECK(x.bad());
        HttpHead y;
        std::string s = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        CHECK(y.feed(s.data(), s.size()) == s.size());
        CHECK(y.done() && y.close && y.status == 204);
        BodyDecoder b;
        b.start(y);
        CHECK(b.done());
    }
    {
        HttpHead x;
        std::string s = h + "Transfer-Encoding: chunked\r\n\r\n";
        x.feed(s.data(), s.size());
        BodyDecoder b;
        b.start(x);
        std::string bad = "3\r\nabcX";
        b.feed(bad.data(), bad.size(), [](const char *, size_t) {});
        CHECK(b.bad());
    }
    {
        Hist q;
        for (int i = 1; i <= 100000; i++) {
            q.add(i * 1000);
        }
        for (double p : {0.5, 0.9, 0.99, 0.999}) {
            double r = static_cast<double>(q.quantile(p)) / (p * 1e8);
            CHECK(r >= 1.0 && r < 1.017);
        }
        CHECK(q.max() == 100000000);
    }
    printf(failures ? "parser tests: %d FAILED\n" : "parser tests: ok\n", failures);
    return failures != 0;
}
