// SPDX-License-Identifier: BSD-2-Clause
// What the worker that runs an event does for the host calls that arrived at another.
#include "core/event.h"
#include "ngx_module/commands.h"
#include "ngx_module/event_stream.h"
#include "ngx_module/request_context.h"
#include "ngx_module/section.h"
#include "ngx_module/upstream_tries.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

// Makes the event's record in the zone. Answers the ErrorCode.
std::int32_t bind(WorkerZone& zone, RequestContext& context) noexcept {
    if (context.is_bound) return static_cast<std::int32_t>(ErrorCode::ok);
    const LocationSettings& location = *context.settings;
    const ObjectSettings* line = location.object != nullptr ? location.object : location.exclusive;
    const SectionRules rules{view(location.exclusive_handler), static_cast<std::uint32_t>(location.exclusive_timeout),
                             static_cast<std::uint32_t>(line->queue)};
    ZoneAccess access(zone);
    if (bind_event(access, context.token, context.kind, context.object_key, context.section(), rules) == nullptr) {
        return static_cast<std::int32_t>(ErrorCode::no_memory);
    }
    context.set_bound();
    return static_cast<std::int32_t>(ErrorCode::ok);
}

}  // namespace

namespace {

void execute_section_command(WorkerZone& zone, Section& section, const Command& command) {
    switch (command.kind) {
    case CommandKind::section_read: return section.answer_read(command);
    case CommandKind::section_result: return section.complete(command);
    default: return zone.commands().answer(command, static_cast<std::int32_t>(ErrorCode::wrong_event_kind));
    }
}

}  // namespace

void execute_command(WorkerZone& zone, const Command& command) {
    if (Section* section = zone.sections().find(command.token)) return execute_section_command(zone, *section, command);
    RequestContext* context = zone.events().find(command.token);
    if (context == nullptr || context->is_overdue()) {
        return zone.commands().answer(command, static_cast<std::int32_t>(ErrorCode::unknown_event));
    }
    if (ngx_http_upstream_t* u = context->request->upstream) forbid_retries(*u);
    switch (command.kind) {
    case CommandKind::stream_start:
    case CommandKind::stream_write:
    case CommandKind::stream_state:
    case CommandKind::stream_end:
    case CommandKind::stream_abort: return execute_stream_command(zone, *context, command);
    case CommandKind::bind_event: return zone.commands().answer(command, bind(zone, *context));
    default: return zone.commands().answer(command, static_cast<std::int32_t>(ErrorCode::unknown_event));
    }
}

}  // namespace durable
