// SPDX-License-Identifier: BSD-2-Clause
// Incremental parsers: HTTP/1.1 response head, body framing (chunked,
// Content-Length, until close), and the server-sent-events line grammar.
// Every parser accepts its input cut at any byte.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <strings.h>

// ---------------------------------------------------------------- head ----

class HttpHead {
  public:
    int status = 0;
    bool chunked = false;
    bool close = false;
    bool event_stream = false;
    int64_t content_length = -1;

    void reset() { *this = HttpHead(); }
    bool done() const { return done_; }
    bool bad() const { return bad_; }

    // Returns the number of bytes that belong to the head; once done() is
    // true, the rest is body.
    size_t feed(const char *p, size_t n)
    {
        size_t i = 0;
        while (i < n && !done_ && !bad_) {
            const void *nl = memchr(p + i, '\n', n - i);
            size_t take = nl ? static_cast<size_t>(static_cast<const char *>(nl) - (p + i)) + 1 : n - i;
            line_.append(p + i, take);
            i += take;
            if (line_.size() > 65536) {
                bad_ = true;
                break;
            }
            if (!nl) {
                break;
            }
            std::string_view v(line_);
            v.remove_suffix(1);
            if (!v.empty() && v.back() == '\r') {
                v.remove_suffix(1);
            }
            line(v);
            line_.clear();
        }
        return i;
    }

  private:
    void line(std::string_view v)
    {
        if (!have_status_) {
            if (v.size() < 12 || v.compare(0, 7, "HTTP/1.") != 0 || v[8] != ' ') {
                bad_ = true;
                return;
            }
            if (v[7] == '0') {
                close = true;
            }
            for (int i = 9; i < 12; i++) {
                if (v[i] < '0' || v[i] > '9') {
                    bad_ = true;
                    return;
                }
                status = status * 10 + (v[i] - '0');
            }
            have_status_ = true;
            return;
        }
        if (v.empty()) {
            if (status >= 100 && status < 200) {
                reset(); // interim answer, the real one follows
                return;
            }
            done_ = true;
            return;
        }
        size_t c = v.find(':');
        if (c == std::string_view::npos) {
            return;
        }
        std::string_view name = v.substr(0, c), val = v.substr(c + 1);
        while (!val.empty() && (val.front() == ' ' || val.front() == '\t')) {
            val.remove_prefix(1);
        }
        if (is(name, "transfer-encoding")) {
            chunked = contains(val, "chunked");
        } else if (is(name, "content-length")) {
            content_length = 0;
            for (char ch : val) {
                if (ch < '0' || ch > '9') {
                    break;
                }
                content_length = content_length * 10 + (ch - '0');
            }
        } else if (is(name, "connection")) {
            if (contains(val, "close")) {
                close = true;
            } else if (contains(val, "keep-alive")) {
                close = false;
            }
        } else if (is(name, "content-type")) {
            event_stream = contains(val, "text/event-stream");
        }
    }

    static bool is(std::string_view a, const char *b)
    {
        return a.size() == strlen(b) && strncasecmp(a.data(), b, a.size()) == 0;
    }

    static bool contains(std::string_view a, const char *b)
    {
        size_t n = strlen(b);
        for (size_t i = 0; i + n <= a.size(); i++) {
            if (strncasecmp(a.data() + i, b, n) == 0) {
                return true;
            }
        }
        return false;
    }

    bool have_status_ = false;
    bool done_ = false;
    bool bad_ = false;
    std::string line_;
};

// ---------------------------------------------------------------- body ----

class BodyDecoder {
  public:
    void start(const HttpHead &h)
    {
        done_ = bad_ = false;
        left_ = 0;
        if (h.status == 204 || h.status == 304) {
            state_ = Length;
            done_ = true;
        } else if (h.chunked) {
            state_ = Size;
            digits_ = 0;
        } else if (h.content_length >= 0) {
            state_ = Length;
            left_ = static_cast<uint64_t>(h.content_length);
            done_ = left_ == 0;
        } else {
            state_ = UntilClose;
        }
    }

    bool done() const { return done_; }
    bool bad() const { return bad_; }
    uint64_t chunks() const { return chunks_; }

    // Calls out(ptr, len) for each run of payload bytes; returns bytes used.
    template <class F> size_t feed(const char *p, size_t n, F &&out)
    {
        size_t i = 0;
        while (i < n && !done_ && !bad_) {
            switch (state_) {
            case UntilClose:
                out(p + i, n - i);
                i = n;
                break;
            case Length: {
                size_t k = n - i < left_ ? n - i : static_cast<size_t>(left_);
                out(p + i, k);
                i += k;
                left_ -= k;
                done_ = left_ == 0;
                break;
            }
            case Size: {
                char c = p[i++];
                int d = hex(c);
                if (d >= 0) {
                    left_ = left_ * 16 + static_cast<uint64_t>(d);
                    if (++digits_ > 15) {
                        bad_ = true;
                    }
                } else if (digits_ == 0) {
                    bad_ = true;
                } else if (c == '\n') {
                    size_end();
                } else {
                    state_ = Ext; // chunk extension or CR
                }
                break;
            }
            case Ext:
                if (p[i++] == '\n') {
                    size_end();
                }
                break;
            case Data: {
                size_t k = n - i < left_ ? n - i : static_cast<size_t>(left_);
                out(p + i, k);
                i += k;
                left_ -= k;
                if (left_ == 0) {
                    state_ = DataCr;
                }
                break;
            }
            case DataCr:
                if (p[i] == '\r') {
                    state_ = DataLf;
                } else {
                    bad_ = true;
                }
                i++;
                break;
            case DataLf:
                if (p[i] == '\n') {
                    state_ = Size;
                    digits_ = 0;
                    left_ = 0;
                } else {
                    bad_ = true;
                }
                i++;
                break;
            case Trailer: {
                char c = p[i++];
                if (c == '\n') {
                    if (digits_ == 0) {
                        done_ = true;
                    }
                    digits_ = 0;
                } else if (c != '\r') {
                    digits_ = 1; // a trailer field is on this line
                }
                break;
            }
            }
        }
        return i;
    }

  private:
    enum State : uint8_t { UntilClose, Length, Size, Ext, Data, DataCr, DataLf, Trailer };

    void size_end()
    {
        chunks_++;
        if (left_ == 0) {
            state_ = Trailer;
            digits_ = 0;
        } else {
            state_ = Data;
        }
    }

    static int hex(char c)
    {
        if (c >= '0' && c <= '9') {
            return c - '0';
        }
        if (c >= 'a' && c <= 'f') {
            return c - 'a' + 10;
        }
        if (c >= 'A' && c <= 'F') {
            return c - 'A' + 10;
        }
        return -1;
    }

    State state_ = UntilClose;
    bool done_ = false;
    bool bad_ = false;
    int digits_ = 0;
    uint64_t left_ = 0;
    uint64_t chunks_ = 0;
};

// ----------------------------------------------------------------- SSE ----

// Follows the event-stream grammar: lines end in LF, CR or CRLF; ':' starts a
// comment; a blank line dispatches the collected data, if there was any.
class SseParser {
  public:
    uint64_t comments = 0;
    uint64_t ids = 0;

    // Calls on_event(std::string_view data) for every dispatched event.
    template <class F> void feed(const char *p, size_t n, F &&on_event)
    {
        const char *end = p + n;
        view_ = std::string_view();
        view_live_ = false;
        while (p < end) {
            if (skip_lf_) {
                skip_lf_ = false;
                if (*p == '\n') {
                    p++;
                    continue;
                }
            }
            const char *e = static_cast<const char *>(memchr(p, '\n', static_cast<size_t>(end - p)));
            size_t span = static_cast<size_t>((e ? e : end) - p);
            const char *cr = static_cast<const char *>(memchr(p, '\r', span));
            if (cr) {
                e = cr;
                skip_lf_ = true;
            }
            if (!e) {
                line_.append(p, static_cast<size_t>(end - p));
                break;
            }
            if (line_.empty()) {
                line(std::string_view(p, static_cast<size_t>(e - p)), true, on_event);
            } else {
                line_.append(p, static_cast<size_t>(e - p));
                std::string whole;
                whole.swap(line_);
                line(whole, false, on_event);
            }
            p = e + 1;
        }
        if (view_live_) { // the bytes go away with this call
            data_.assign(view_.data(), view_.size());
            view_live_ = false;
        }
    }

  private:
    template <class F> void line(std::string_view v, bool stable, F &&on_event)
    {
        if (first_line_) {
            first_line_ = false;
            if (v.size() >= 3 && v.compare(0, 3, "\xEF\xBB\xBF") == 0) {
                v.remove_prefix(3);
            }
        }
        if (v.empty()) {
            if (have_data_) {
                on_event(view_live_ ? view_ : std::string_view(data_));
            }
            have_data_ = view_live_ = false;
            data_.clear();
            return;
        }
        if (v[0] == ':') {
            comments++;
            return;
        }
        size_t c = v.find(':');
        std::string_view name = v.substr(0, c), val;
        if (c != std::string_view::npos) {
            val = v.substr(c + 1);
            if (!val.empty() && val[0] == ' ') {
                val.remove_prefix(1);
            }
        }
        if (name == "data") {
            if (!have_data_) {
                have_data_ = true;
                if (stable) {
                    view_ = val;
                    view_live_ = true;
                } else {
                    data_.assign(val.data(), val.size());
                }
            } else {
                if (view_live_) {
                    data_.assign(view_.data(), view_.size());
                    view_live_ = false;
                }
                data_ += '\n';
                data_.append(val.data(), val.size());
            }
        } else if (name == "id") {
            ids++;
        }
    }

    std::string line_;
    std::string data_;
    std::string_view view_;
    bool view_live_ = false;
    bool have_data_ = false;
    bool skip_lf_ = false;
    bool first_line_ = true;
};
