// SPDX-License-Identifier: BSD-2-Clause
// The host calls on exclusive sections.
#include "core/event.h"
#include "core/text_rules.h"
#include "ngx_module/host_calls.h"
#include "ngx_module/section.h"

namespace durable {

namespace {

// The section's rules, from the location that bound the event, else from the one that the call reached.
Section::Rules rules_of(HostCall& call, const EventRecord& event) {
    const LocationSettings& location = *location_settings(call.request);
    Section::Rules rules{std::string(), event.section_timeout_ms, event.line_queue};
    event.section_handler.append_to(rules.handler);
    if (rules.handler.empty()) {
        rules.handler = view(location.exclusive_handler);
        rules.timeout = location.exclusive_timeout;
    }
    return rules;
}

void enter_section(HostCall& call) {
    Section::Rules rules;
    std::string object_key;
    {
        CallAccess access(call, CallAccess::kNotHeld);  // it has its own place in the line
        if (!access) return;
        const EventRecord& event = *access.event();
        const bool is_nested = event.kind == EventKind::durable_block || event.section != nullptr;
        rules = rules_of(call, event);
        object_key = access.object_key();
        access.release();
        if (is_nested) return call.refuse(ErrorCode::nested_exclusive);
    }
    if (rules.handler.empty()) return call.refuse(ErrorCode::no_handler);
    call.section = Section::create(call, std::move(object_key), std::move(rules));
    if (call.section == nullptr) return call.finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
    call.section->start();
}

void on_params_checked(HostCall& call, JsonTask& task) {
    if (!task.is_read) return call.finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
    if (!task.is_valid) return call.refuse(ErrorCode::invalid_params);
    task.text = std::string();  // the handler gets the body itself
    call.set_work(enter_section);
    call.run();
}

// What a section's event alone may do. False: the call has been refused, or has to come again.
bool is_section_call(HostCall& call) {
    CallAccess access(call, CallAccess::kNotHeld);
    if (!access) return false;
    const bool is_section = access.event()->kind == EventKind::durable_block;
    access.release();
    if (!is_section) call.refuse(ErrorCode::not_in_section);
    return is_section;
}

void send_result(HostCall& call) {
    if (!is_section_call(call)) return;
    Command command;
    command.kind = CommandKind::section_result;
    command.text = std::move(call.storage);
    call.send_command(command, [](HostCall& sender, const Command& answer) {
        const auto error = static_cast<ErrorCode>(answer.result);
        if (error != ErrorCode::ok) return sender.refuse(error);
        sender.answer_nothing();
    });
}

void on_result_checked(HostCall& call, JsonTask& task) {
    if (!task.is_read) return call.finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
    if (!task.is_valid) return call.refuse(ErrorCode::invalid_result);
    call.storage = std::move(task.text);
    call.set_work(send_result);
    call.run();
}

}  // namespace

void exclusive_call(HostCall& call) {
    if (const ErrorCode error = check_operation_name(call.argument); error != ErrorCode::ok) return call.refuse(error);
    JsonTask::check_body(call, on_params_checked);
}

void section_call(HostCall& call) {
    if (!is_section_call(call)) return;
    Command command;
    command.kind = CommandKind::section_read;
    call.send_command(command, [](HostCall& sender, const Command& answer) {
        const auto error = static_cast<ErrorCode>(answer.result);
        if (error != ErrorCode::ok) return sender.refuse(error);
        sender.answer(NGX_HTTP_OK, answer.text);
    });
}

void section_result_call(HostCall& call) {
    if (!is_section_call(call)) return;
    JsonTask::check_body(call, on_result_checked);
}

}  // namespace durable
