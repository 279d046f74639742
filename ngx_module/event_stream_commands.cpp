// SPDX-License-Identifier: BSD-2-Clause
// The stream calls as the event's own worker does them (S-21, S-23).
#include <cstdlib>

#include "ngx_module/commands.h"
#include "ngx_module/event_stream.h"
#include "ngx_module/pool.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

void answer(WorkerZone& zone, const Command& command, ErrorCode error, std::string_view text = {}) noexcept {
    zone.commands().answer(command, static_cast<std::int32_t>(error), text);
}

// 0 means none.
std::uint64_t new_handle(WorkerZone& zone) {
    std::uint64_t handle = 0;
    while (handle == 0) zone.worker().random_bytes(&handle, sizeof handle);
    return handle;
}

ErrorCode start(WorkerZone& zone, RequestContext& context, const Command& command, std::string& handle_text) {
    if (const ErrorCode error = EventStream::check_start(context); error != ErrorCode::ok) return error;
    const std::uint64_t handle = new_handle(zone);
    auto* stream = create_in_pool<EventStream>(context.request->pool, context, handle);
    if (stream == nullptr) return ErrorCode::no_memory;
    handle_text = std::to_string(handle);
    return stream->start(read_stream_head(command.text));
}

}  // namespace

// Neither a name nor a value holds a line end, nor a name a colon.
std::string write_stream_head(const StreamStart& head) {
    std::string text = std::to_string(head.status);
    for (const auto& [name, value] : head.headers) text.append("\n").append(name).append(":").append(value);
    return text;
}

StreamStart read_stream_head(std::string_view text) {
    StreamStart head;
    head.status = std::atoi(std::string(text.substr(0, text.find('\n'))).c_str());
    for (std::size_t at = text.find('\n'); at != std::string_view::npos;) {
        const std::size_t next = text.find('\n', at + 1);
        const std::string_view line = text.substr(at + 1, next == std::string_view::npos ? next : next - at - 1);
        const std::size_t colon = line.find(':');
        head.headers.emplace_back(line.substr(0, colon), line.substr(colon + 1));
        at = next;
    }
    return head;
}

void execute_stream_command(WorkerZone& zone, RequestContext& context, const Command& command) {
    if (command.kind == CommandKind::stream_start) {
        std::string handle;
        const ErrorCode error = start(zone, context, command, handle);
        return answer(zone, command, error, handle);
    }
    EventStream* stream = context.stream;
    if (stream == nullptr || stream->handle() != command.handle) return answer(zone, command, ErrorCode::unknown_stream);
    switch (command.kind) {
    case CommandKind::stream_write: return stream->write(command);
    case CommandKind::stream_state: return answer(zone, command, ErrorCode::ok, stream->is_disconnected() ? "1" : "0");
    case CommandKind::stream_end: stream->end(); return answer(zone, command, ErrorCode::ok);
    default: stream->abort(command.text); return answer(zone, command, ErrorCode::ok);
    }
}

}  // namespace durable
