// SPDX-License-Identifier: BSD-2-Clause
// The host calls on event streams: checked here, done by the worker that runs the event. They do not
// wait for a section.
#include "core/text_rules.h"
#include "ngx_module/event_stream.h"
#include "ngx_module/host_calls.h"

namespace durable {

namespace {

// False: the command was refused, and so is the call.
bool is_done(HostCall& call, const Command& answer, std::string_view detail = {}) {
    const auto error = static_cast<ErrorCode>(answer.result);
    if (error != ErrorCode::ok) call.refuse(error, detail);
    return error == ErrorCode::ok;
}

void answer_start(HostCall& call, const Command& answer) {
    if (!is_done(call, answer)) return;
    call.answer(NGX_HTTP_CREATED, "{\"stream\":\"" + handle_text(std::stoull(answer.text)) + "\"}");
}

void answer_write(HostCall& call, const Command& answer) {
    if (is_done(call, answer, call.argument)) call.answer(NGX_HTTP_OK, "{\"result\":" + answer.text + "}");
}

void answer_state(HostCall& call, const Command& answer) {
    if (!is_done(call, answer, call.argument)) return;
    call.answer(NGX_HTTP_OK, answer.text == "1" ? "{\"disconnected\":true}" : "{\"disconnected\":false}");
}

void answer_end(HostCall& call, const Command& answer) {
    if (is_done(call, answer, call.argument)) call.answer_nothing();
}

// No stream has the handle 0.
Command stream_command(const HostCall& call, CommandKind kind) {
    Command command;
    command.kind = kind;
    command.handle = read_handle(call.argument).value_or(0);
    return command;
}

// S-2, S-4, S-5
bool is_legal_head(HostCall& call, const StreamStart& head) {
    if (const ErrorCode error = check_stream_status(head.status); error != ErrorCode::ok) {
        call.refuse(error);
        return false;
    }
    const HeadersResult checked = check_stream_headers(head.headers);
    if (checked.error == ErrorCode::ok) return true;
    const bool has_name = checked.index < head.headers.size();
    call.refuse(checked.error, has_name ? std::string_view(head.headers[checked.index].first) : std::string_view());
    return false;
}

}  // namespace

void start_stream_call(HostCall& call) {
    std::string storage;
    std::string_view body;
    if (!call.read_body(storage, body)) return;
    const auto head = parse_stream_start(body);
    if (!head) return call.refuse(ErrorCode::invalid_stream_start);
    if (!is_legal_head(call, *head)) return;
    Command command;
    command.kind = CommandKind::stream_start;
    command.text = write_stream_head(*head);
    call.send_command(command, answer_start);
}

void write_stream_call(HostCall& call) {
    std::string storage;
    std::string_view text;
    if (!call.read_body(storage, text)) return;
    if (const ErrorCode error = check_stream_text(text); error != ErrorCode::ok) return call.refuse(error);
    Command command = stream_command(call, CommandKind::stream_write);
    command.text = text;
    call.send_command(command, answer_write, true);  // S-13
}

void stream_state_call(HostCall& call) {
    Command command = stream_command(call, CommandKind::stream_state);
    call.send_command(command, answer_state);
}

void end_stream_call(HostCall& call) {
    Command command = stream_command(call, CommandKind::stream_end);
    call.send_command(command, answer_end);
}

void abort_stream_call(HostCall& call) {
    std::string storage;
    std::string_view reason;
    if (!call.read_body(storage, reason)) return;
    if (const ErrorCode error = check_reason(reason); error != ErrorCode::ok) return call.refuse(error);
    Command command = stream_command(call, CommandKind::stream_abort);
    command.text = reason;
    call.send_command(command, answer_end);
}

}  // namespace durable
