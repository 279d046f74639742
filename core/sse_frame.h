// SPDX-License-Identifier: BSD-2-Clause
// Text to event-stream bytes (HTML Living Standard, 9.2 "Server-sent events"). Every function appends
// to `out`, so that one buffer serves many frames. None needs a lock.
// Types and ids are one line without CR, LF or NUL: see check_event_type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace durable {

// One message. `id` and `event` are left out where empty. One `data:` line for each line of the text:
// CR, LF and CRLF each end a line, only LF is written. The reader gets back the text exactly, with
// its line ends as LF.
void append_message_frame(std::string& out, std::string_view id, std::string_view event, std::string_view text);

// The same with `durable_subscribe_format json`: the data is one line of JSON,
// {"channel":"…","event":"…"|null,"text":"…"}. Channel, event and text are valid UTF-8.
void append_json_message_frame(std::string& out, std::string_view id, std::string_view channel, std::string_view event,
                               std::string_view text);

// The close of a channel: `durable-close` with its reason.
void append_close_frame(std::string& out, std::string_view reason);

// The reader fell behind by more than the backlog: `durable-backlog`; the stream ends after it.
void append_backlog_frame(std::string& out);

// H-4: what follows `asked` was not kept. `asked` is any bytes; an empty `next` is null, nothing is kept.
void append_gap_frame(std::string& out, std::string_view asked, std::string_view next);

// How long a reader waits before it connects again.
void append_retry(std::string& out, std::uint64_t retry_ms);

// A comment, which readers ignore: keeps a quiet stream alive. `text` is one line.
void append_comment(std::string& out, std::string_view text);

}  // namespace durable
