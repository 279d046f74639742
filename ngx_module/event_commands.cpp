// SPDX-License-Identifier: BSD-2-Clause
// What the worker that runs an event does for the host calls that arrived at another.
#include "core/event.h"
#include "ngx_module/commands.h"
#include "ngx_module/request_context.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

// Makes the event's record in the zone. Answers the ErrorCode.
std::int32_t bind(WorkerZone& zone, RequestContext& context) noexcept {
    if (context.is_bound) return static_cast<std::int32_t>(ErrorCode::ok);
    ZoneAccess access(zone);
    if (bind_event(access, context.token, context.kind, context.object_key, context.section()) == nullptr) {
        return static_cast<std::int32_t>(ErrorCode::no_memory);
    }
    context.set_bound();
    return static_cast<std::int32_t>(ErrorCode::ok);
}

}  // namespace

void execute_command(WorkerZone& zone, const Command& command) {
    RequestContext* context = zone.events().find(command.token);
    if (context == nullptr || context->is_overdue()) {
        return zone.commands().answer(command, static_cast<std::int32_t>(ErrorCode::unknown_event));
    }
    switch (command.kind) {
    case CommandKind::bind_event: return zone.commands().answer(command, bind(zone, *context));
    default: return zone.commands().answer(command, static_cast<std::int32_t>(ErrorCode::unknown_event));
    }
}

}  // namespace durable
