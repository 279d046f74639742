// SPDX-License-Identifier: BSD-2-Clause
// The half of store_worker.h that executes jobs.
#include <type_traits>

#include "core/digest.h"
#include "core/event_documents.h"
#include "core/store_worker.h"
#include "core/suspension.h"

namespace durable {
namespace {

constexpr std::ptrdiff_t kMaxBatch = 256;

Completion answer(std::string body) { return {Completion::Kind::answer, 0, 200, false, std::move(body)}; }

Completion refuse(const Refusal& refusal) {
    return {Completion::Kind::answer, 0, error_info(refusal.code).status, false, error_body(refusal)};
}

bool is_stream_job(const Job& job) noexcept {
    return std::holds_alternative<OpenStreamJob>(job) || std::holds_alternative<StreamReadyJob>(job) ||
           std::holds_alternative<CloseStreamJob>(job);
}

bool is_read(const Job& job) noexcept {
    return std::holds_alternative<ListJob>(job) || std::holds_alternative<FetchJob>(job);
}

std::string changed(std::int64_t rows) { return "{\"changed\":" + std::to_string(rows) + '}'; }

}  // namespace

// Consecutive writes share one transaction, so that many callers share one wait for the disk (group commit). Nothing is
// answered before the commit.
void StoreWorker::run_jobs() {
    std::vector<QueuedJob> jobs = queue_.take_jobs();
    QueuedJob* next = jobs.data();
    QueuedJob* const end = next + jobs.size();
    while (next != end && !queue_.stop_flag().load()) {
        if (is_stream_job(next->job)) {
            execute_stream_job(*next++);
            continue;
        }
        QueuedJob* last = next + 1;
        const bool reads = is_read(next->job);
        while (last != end && last - next < kMaxBatch && is_read(last->job) == reads && !is_stream_job(last->job))
            ++last;
        run_batch(next, last);
        next = last;
    }
    pump();
}

void StoreWorker::run_batch(QueuedJob* first, QueuedJob* last) {
    Answers answers;
    if (!database_.is_open()) {
        for (QueuedJob* job = first; job != last; ++job) answer_failure(*job, last_failure_, answers);
    } else if (!run_together(first, last, answers)) {
        // One job too many for the disk must not fail the others; a store that is busy or broken fails them all.
        const int kind = database_.error_code() & 0xFF;
        const bool may_retry = last - first > 1 && kind == SQLITE_FULL && !database_.must_reopen();
        for (QueuedJob* job = first; job != last; ++job) {
            if (may_retry) database_.clear_error();
            if (!may_retry || !run_together(job, job + 1, answers)) answer_failure(*job, database_.error(), answers);
        }
        check_database("serving calls");
    }
    queue_.complete(std::move(answers));
}

bool StoreWorker::run_together(QueuedJob* first, QueuedJob* last, Answers& answers) {
    Answers done;
    const auto execute_all = [&] {
        for (QueuedJob* job = first; job != last && !database_.has_failed(); ++job) execute(*job, done);
    };
    if (is_read(first->job)) {
        execute_all();
        if (database_.has_failed()) return false;
    } else {
        if (!transact(database_, true, execute_all)) return false;
        has_changed_ = true;
    }
    std::move(done.begin(), done.end(), std::back_inserter(answers));
    return true;
}

void StoreWorker::answer_failure(const QueuedJob& job, const std::string& why, Answers& answers) {
    answers.push_back(refuse({ErrorCode::store_failed, why}));
    answers.back().id = job.id;
}

void StoreWorker::execute(QueuedJob& job, Answers& answers) {
    Completion completion = std::visit(
        [this](const auto& one) -> Completion {
            using Kind = std::decay_t<decltype(one)>;
            if constexpr (std::is_same_v<Kind, SubscribeJob>) return subscribe(one);
            if constexpr (std::is_same_v<Kind, UnsubscribeJob>) return unsubscribe(one);
            if constexpr (std::is_same_v<Kind, ListJob>) return list(one);
            if constexpr (std::is_same_v<Kind, FetchJob>) return fetch(one);
            if constexpr (std::is_same_v<Kind, AckJob>) return acknowledge(one);
            if constexpr (std::is_same_v<Kind, PublishJob>) return publish(one);
            if constexpr (std::is_same_v<Kind, EmitJob>) return emit(one);
            if constexpr (std::is_same_v<Kind, SuspendJob>) return suspend(one);
            if constexpr (std::is_same_v<Kind, ResumeJob>) return resume(one);
            return {};
        },
        job.job);
    completion.id = job.id;
    answers.push_back(std::move(completion));
}

void StoreWorker::execute_stream_job(QueuedJob& job) {
    const std::int64_t now = settings_.now_ms();
    if (const auto* ready = std::get_if<StreamReadyJob>(&job.job)) {
        streams_->set_ready(ready->stream);
        return;
    }
    if (const auto* closed = std::get_if<CloseStreamJob>(&job.job)) {
        streams_->close(closed->stream, now);
        has_changed_ = true;
        check_database("closing a live stream");
        return;
    }
    const auto& open = std::get<OpenStreamJob>(job.job);
    Answers answers;
    if (!database_.is_open()) {
        answer_failure(job, last_failure_, answers);
    } else {
        const Refusal refusal = streams_->open(job.id, open.caller, open.subject, open.last_event_id, now);
        answers.push_back(refusal.is_refused() ? refuse(refusal) : answer({}));
        answers.back().id = job.id;
        check_database("opening a live stream");
    }
    queue_.complete(std::move(answers));
}

// --------------------------------------------------------------- the calls

Completion StoreWorker::subscribe(const SubscribeJob& job) {
    const std::int64_t now = settings_.now_ms();
    NewSubscription wanted;
    if (Refusal refusal = parse_subscribe(job.body, settings_.handlers, now / 1000, wanted); refusal.is_refused()) {
        return refuse(refusal);
    }
    SubscriptionRow row;
    if (Refusal refusal = subscriptions_.insert(job.caller, wanted, job.quotas, now, row); refusal.is_refused()) {
        return refuse(refusal);
    }
    std::string body;
    append_subscription(body, row);
    return answer(std::move(body));
}

Completion StoreWorker::unsubscribe(const UnsubscribeJob& job) {
    std::string sub_id;
    if (Refusal refusal = parse_unsubscribe(job.body, sub_id); refusal.is_refused()) return refuse(refusal);
    if (!subscriptions_.remove(job.caller, sub_id)) return refuse({ErrorCode::subscription_does_not_exist, sub_id});
    return answer("{}");
}

Completion StoreWorker::list(const ListJob& job) {
    PageRequest request;
    if (Refusal refusal = parse_page_request(job.query, "cursor", request); refusal.is_refused())
        return refuse(refusal);
    const SubscriptionStore::Page page = subscriptions_.list(job.caller, request, settings_.now_ms());
    std::string body = "{\"items\":[";
    for (const SubscriptionRow& row : page.rows) {
        if (body.back() == '}') body += ',';
        append_subscription(body, row);
    }
    body += ']';
    if (page.has_more) body += ",\"cursor\":\"" + write_cursor(page.rows.back().id) + '"';
    if (page.total) body += ",\"total\":" + std::to_string(*page.total);
    return answer(body + '}');
}

Completion StoreWorker::fetch(const FetchJob& job) {
    PageRequest request;
    const std::string text = query_argument(job.query, "subject").value_or("");
    const ParsedSubject parsed = parse_subject(text);
    if (Refusal refusal = refusal_of(parsed.outcome, text); refusal.is_refused()) return refuse(refusal);
    if (Refusal refusal = parse_page_request(job.query, "after", request); refusal.is_refused()) return refuse(refusal);
    const EventLog::Page page = log_.fetch(parsed.subject, job.caller.account, request.after, request.limit);
    std::string body = "{\"items\":[";
    for (const LoggedEvent& event : page.events) {
        if (body.back() == '}') body += ',';
        append_event(body, event, job.caller.account);
    }
    body += ']';
    if (page.has_more) body += ",\"cursor\":\"" + write_cursor(page.events.back().seq) + '"';
    return answer(body + '}');
}

Completion StoreWorker::acknowledge(const AckJob& job) {
    std::string sub_id;
    std::string event_id;
    if (Refusal refusal = parse_ack(job.body, sub_id, event_id); refusal.is_refused()) return refuse(refusal);
    const std::optional<std::int64_t> row = subscriptions_.find(job.caller, sub_id);
    if (!row) return refuse({ErrorCode::subscription_does_not_exist, sub_id});
    delivery_.acknowledge(*row, event_id, settings_.now_ms());
    return answer("{}");
}

Completion StoreWorker::publish_event(LoggedEvent& event) {
    const std::int64_t now = settings_.now_ms();
    log_.append(event, now);
    const std::int64_t matched = delivery_.enqueue(event, now);
    return answer("{\"id\":\"" + event.uuid + "\",\"seq\":" + std::to_string(event.seq) +
                  ",\"matched\":" + std::to_string(matched) + '}');
}

Completion StoreWorker::publish(const PublishJob& job) {
    LoggedEvent event;
    if (Refusal refusal = parse_publish(job.body, event); refusal.is_refused()) return refuse(refusal);
    return publish_event(event);
}

Completion StoreWorker::emit(const EmitJob& job) {
    ParsedEventSubject parsed = parse_event_subject(job.subject, job.op);
    if (Refusal refusal = refusal_of(parsed.outcome, job.subject); refusal.is_refused()) return refuse(refusal);
    LoggedEvent event;
    event.subject = std::move(parsed.subject);
    // A place it came from that is no path of ours is no reason to lose the event.
    if (event.subject.op == "move") event.subject.from = normalised_path(job.from).value_or("");
    event.account = job.account;
    event.publisher = job.account;
    return publish_event(event);
}

Completion StoreWorker::suspend(const SuspendJob& job) {
    SuspensionRequest request;
    if (Refusal refusal = parse_suspension(job.body, true, request); refusal.is_refused()) return refuse(refusal);
    return answer(changed(suspend_rows(database_, request, settings_.now_ms())));
}

Completion StoreWorker::resume(const ResumeJob& job) {
    SuspensionRequest request;
    if (Refusal refusal = parse_suspension(job.body, false, request); refusal.is_refused()) return refuse(refusal);
    return answer(changed(resume_rows(database_, delivery_, request, settings_.now_ms())));
}

}  // namespace durable
