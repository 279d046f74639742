// SPDX-License-Identifier: BSD-2-Clause
// Stores that cannot be used, and processes that are killed (E-1, E-33, E-36).
#include <cppunit/extensions/HelperMacros.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <utility>

#include "core/tests/http_receiver.h"
#include "core/tests/store_probe.h"

namespace {

// All that was committed is in the file itself then, however the last process ended.
void checkpoint(const std::string& path) {
    sqlite3* db = nullptr;
    CPPUNIT_ASSERT_EQUAL(SQLITE_OK, sqlite3_open(path.c_str(), &db));
    CPPUNIT_ASSERT_EQUAL(SQLITE_OK, sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", nullptr, nullptr, nullptr));
    sqlite3_close(db);
}

using durable_test::HttpReceiver;
using durable_test::ScratchFolder;
using durable_test::StoreProbe;

constexpr char kSubscribe[] = R"({"subject":"topic:a","delivery":"single","handlerName":"hook"})";

class EventsStoreFailuresTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(EventsStoreFailuresTest);
    CPPUNIT_TEST(a_missing_folder_is_store_failed_until_it_is_there_E_1);
    CPPUNIT_TEST(a_file_of_a_newer_version_is_left_alone_E_1);
    CPPUNIT_TEST(a_file_that_is_no_database_is_left_alone_E_1);
    CPPUNIT_TEST(another_programs_database_is_left_alone_E_1);
    CPPUNIT_TEST(a_read_only_file_is_store_failed_E_1);
    CPPUNIT_TEST(a_file_damaged_in_the_middle_never_crashes_E_1);
    CPPUNIT_TEST(a_full_disk_fails_the_call_and_keeps_the_rows_E_1);
    CPPUNIT_TEST(a_store_locked_by_another_fails_in_bounded_time_E_1);
    CPPUNIT_TEST(the_file_is_for_its_owner_only_E_1);
    CPPUNIT_TEST(a_thread_that_never_started_answers_E_1);
    CPPUNIT_TEST(kill_9_loses_nothing_that_was_answered_E_1_E_33_E_36);
    CPPUNIT_TEST_SUITE_END();

    ScratchFolder folder_;

    static void failed(StoreProbe& store, const std::string& why) {
        const auto answers = {store.subscribe(R"({"subject":"topic:a"})"), store.publish(R"({"subject":"topic:a"})"),
                              store.call(durable::ListJob{{"alice", std::nullopt}, ""}),
                              store.call(durable::OpenStreamJob{{"alice", std::nullopt}, std::nullopt, std::nullopt})};
        for (const auto& answer : answers) {
            CPPUNIT_ASSERT_EQUAL_MESSAGE(answer.body, 503, answer.status);
            CPPUNIT_ASSERT_EQUAL(std::string("store_failed"), StoreProbe::member(answer.body, "code"));
        }
        CPPUNIT_ASSERT_MESSAGE(store.notices(), store.notices().find(why) != std::string::npos);
    }
    static void run_sql(const std::string& path, const char* sql) {
        sqlite3* database = nullptr;
        sqlite3_open(path.c_str(), &database);
        sqlite3_exec(database, sql, nullptr, nullptr, nullptr);
        sqlite3_close(database);
    }
    static std::string content(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }

public:
    // E-1
    void a_missing_folder_is_store_failed_until_it_is_there_E_1() {
        const std::string missing = folder_.path() + "/missing";
        {
            StoreProbe store(missing + "/store.db");
            failed(store, "cannot be used");
            ::mkdir(missing.c_str(), 0700);
            int status = 503;
            for (int i = 0; i < 50 && status != 200; ++i) {
                store.collect(100);
                status = store.subscribe(R"({"subject":"topic:a"})").status;
            }
            CPPUNIT_ASSERT_EQUAL(200, status);
            store.collect(100);
            CPPUNIT_ASSERT(store.notices().find("open again") != std::string::npos);
        }
        for (const char* suffix : {"", "-wal", "-shm", ".lock"}) ::unlink((missing + "/store.db" + suffix).c_str());
        ::rmdir(missing.c_str());
    }

    // E-1
    void a_file_of_a_newer_version_is_left_alone_E_1() {
        run_sql(folder_.store(), "CREATE TABLE t(a); PRAGMA user_version = 99;");
        StoreProbe store(folder_.store());
        failed(store, "version 99, newer than this module's");
    }

    // E-1
    void a_file_that_is_no_database_is_left_alone_E_1() {
        const std::string text(8192, 'x');
        std::ofstream(folder_.store()) << text;
        {
            StoreProbe store(folder_.store());
            failed(store, "not a database");
        }
        CPPUNIT_ASSERT(content(folder_.store()) == text);
    }

    // E-1
    void another_programs_database_is_left_alone_E_1() {
        run_sql(folder_.store(), "CREATE TABLE t(a);");
        StoreProbe store(folder_.store());
        failed(store, "of something else");
    }

    // Root may write to any file, so the file is made immutable where the file system can do that; else it is skipped.
    // E-1
    void a_read_only_file_is_store_failed_E_1() {
        {
            StoreProbe store(folder_.store());
            CPPUNIT_ASSERT_EQUAL(200, store.subscribe(R"({"subject":"topic:a"})").status);
        }
        ::chmod(folder_.store().c_str(), 0400);
        const pid_t child = ::fork();
        if (child == 0) {
            // Without root's rights, where there are such.
            if (::chown(folder_.path().c_str(), 65534, 65534) != 0 ||
                ::chown(folder_.store().c_str(), 65534, 65534) != 0 || ::setuid(65534) != 0) {
                ::_exit(::geteuid() == 0 ? 0 : 2);
            }
            StoreProbe store(folder_.store());
            const auto answer = store.subscribe(R"({"subject":"topic:a"})");
            ::_exit(answer.status == 503 && StoreProbe::member(answer.body, "code") == "store_failed" ? 0 : 1);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        CPPUNIT_ASSERT_EQUAL(0, status);
    }

    // E-1
    void a_file_damaged_in_the_middle_never_crashes_E_1() {
        {
            StoreProbe store(folder_.store());
            for (int i = 0; i < 200; ++i)
                store.submit(durable::SubscribeJob{{"alice", std::nullopt}, {1000, 1000}, R"({"subject":"topic:a"})"});
            store.publish(R"({"subject":"topic:a"})");
        }
        checkpoint(folder_.store());
        const std::string whole = content(folder_.store());
        CPPUNIT_ASSERT(whole.size() > 2 * 4096);
        std::mt19937 random(7);
        for (int round = 0; round < 10; ++round) {
            std::string damaged = whole;
            for (std::size_t at = 4096 * (1 + random() % (whole.size() / 4096 - 1)); at < damaged.size(); at += 97) {
                damaged[at] = static_cast<char>(random());
            }
            for (const char* suffix : {"-wal", "-shm"}) ::unlink((folder_.store() + suffix).c_str());
            std::ofstream(folder_.store(), std::ios::binary | std::ios::trunc) << damaged;
            StoreProbe store(folder_.store());
            for (const auto& answer : {store.publish(R"({"subject":"topic:a"})"),
                                       store.call(durable::ListJob{{"alice", std::nullopt}, ""})}) {
                CPPUNIT_ASSERT_MESSAGE(answer.body, answer.status == 200 || answer.status == 503);
            }
        }
    }

    // E-1
    void a_full_disk_fails_the_call_and_keeps_the_rows_E_1() {
        if (::mount("none", folder_.path().c_str(), "tmpfs", 0, "size=1500k") != 0) return;  // needs root
        {
            StoreProbe store(folder_.store());
            const std::string sub_id = StoreProbe::member(store.subscribe(R"({"subject":"topic:a"})").body, "subId");
            const std::string event = R"({"subject":"topic:a","data":")" + std::string(30000, 'x') + "\"}";
            int published = 0;
            durable::Completion last;
            for (; published < 200 && (last = store.publish(event)).status == 200; ++published) {}
            CPPUNIT_ASSERT_EQUAL_MESSAGE(last.body, 503, last.status);
            CPPUNIT_ASSERT_EQUAL(std::string("store_failed"), StoreProbe::member(last.body, "code"));
            CPPUNIT_ASSERT(published > 0);
            const auto listed = store.call(durable::ListJob{{"alice", std::nullopt}, ""});
            CPPUNIT_ASSERT_MESSAGE(listed.body, listed.body.find(sub_id) != std::string::npos);
            CPPUNIT_ASSERT_EQUAL(0, ::mount("none", folder_.path().c_str(), "tmpfs", MS_REMOUNT, "size=20m"));
            int status = 503;
            for (int i = 0; i < 30 && status != 200; ++i) {
                store.collect(100);
                status = store.publish(event).status;
            }
            CPPUNIT_ASSERT_EQUAL(200, status);
            const auto fetched = store.call(durable::FetchJob{{"alice", std::nullopt}, "subject=topic:a&limit=200"});
            std::size_t count = 0;
            for (std::size_t at = fetched.body.find("\"topic\""); at != std::string::npos;
                 at = fetched.body.find("\"topic\"", at + 1))
                ++count;
            CPPUNIT_ASSERT_EQUAL(static_cast<std::size_t>(published + 1), count);
        }
        ::umount2(folder_.path().c_str(), MNT_DETACH);
    }

    // E-1
    void a_store_locked_by_another_fails_in_bounded_time_E_1() {
        StoreProbe store(folder_.store());
        CPPUNIT_ASSERT_EQUAL(200, store.subscribe(R"({"subject":"topic:a"})").status);
        sqlite3* other = nullptr;
        sqlite3_open(folder_.store().c_str(), &other);
        sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
        const auto refused = store.publish(R"({"subject":"topic:a"})");
        CPPUNIT_ASSERT_EQUAL_MESSAGE(refused.body, 503, refused.status);
        const std::uint64_t waiting = store.submit(durable::PublishJob{R"({"subject":"topic:a"})"});
        store.collect(300);
        sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr);
        CPPUNIT_ASSERT_EQUAL(200, store.answer_of(waiting).status);
        sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
        store.submit(durable::PublishJob{R"({"subject":"topic:a"})"});
        store.collect(100);
        const std::int64_t start_at = StoreProbe::real_now();
        store.thread().stop();
        CPPUNIT_ASSERT(StoreProbe::real_now() - start_at < 1000);
        sqlite3_close(other);
    }

    // E-1
    void the_file_is_for_its_owner_only_E_1() {
        StoreProbe store(folder_.store());
        store.subscribe(R"({"subject":"topic:a"})");
        for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
            struct stat info {};
            CPPUNIT_ASSERT_EQUAL(0, ::stat((folder_.store() + suffix).c_str(), &info));
            CPPUNIT_ASSERT_EQUAL_MESSAGE(suffix, 0600U, info.st_mode & 0777U);
        }
    }

    // E-1
    void a_thread_that_never_started_answers_E_1() {
        durable::StoreSettings settings;
        settings.now_ms = StoreProbe::real_now;
        durable::StoreThread thread(settings);
        thread.submit(1, durable::PublishJob{"{}"});
        thread.submit(2, durable::StreamReadyJob{1});
        const auto completions = thread.take_completions();
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, completions.size());
        CPPUNIT_ASSERT_EQUAL(503, completions[0].status);
    }

    // Two processes publish into one store, which one of them delivers from; both are killed at a random moment, again
    // and again. What they were answered is written to a pipe, which the kernel keeps.
    // E-1, E-33, E-36
    void kill_9_loses_nothing_that_was_answered_E_1_E_33_E_36() {
        HttpReceiver handler([](const HttpReceiver::Request&,
                                std::size_t before) { return HttpReceiver::status(before % 23 == 3 ? 503 : 204); },
                             false);
        const std::vector<durable::HandlerSettings> handlers = {{"hook", handler.url(), "", 2000}};
        {
            StoreProbe store(folder_.store(), handlers);
            CPPUNIT_ASSERT_EQUAL(200, store.subscribe(kSubscribe).status);
        }
        const char* wanted_rounds = std::getenv("DURABLE_CRASH_ROUNDS");
        const int rounds = wanted_rounds != nullptr ? std::atoi(wanted_rounds) : 20;
        // A process that has threads must not fork others that go on to allocate, so one that has none does it.
        const Pipe reported;
        const pid_t killer = ::fork();
        if (killer == 0) {
            std::mt19937 random(static_cast<unsigned>(StoreProbe::real_now()));
            for (int round = 0; round < rounds; ++round) write_all(reported.in, run_until_killed(handlers, random));
            ::_exit(0);
        }
        handler.start();
        const std::string text = reported.read_all();
        ::waitpid(killer, nullptr, 0);
        std::set<std::string> acknowledged;
        for (std::size_t at = 0; at + 37 <= text.size(); at += 37) acknowledged.insert(text.substr(at, 36));
        CPPUNIT_ASSERT(acknowledged.size() > static_cast<std::size_t>(rounds));
        check_everything(handlers, handler, acknowledged);
    }

private:
    struct Pipe {
        Pipe() {
            int ends[2] = {-1, -1};
            if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
            out = ends[0];
            in = ends[1];
        }
        ~Pipe() { ::close(out); }
        // Until every process that could write is gone, this one first.
        std::string read_all() const {
            ::close(in);
            std::string text;
            char block[65536];
            for (ssize_t size = 0; (size = ::read(out, block, sizeof block)) > 0;) {
                text.append(block, static_cast<std::size_t>(size));
            }
            return text;
        }
        int out;
        int in;
    };

    static void write_all(int fd, std::string_view text) {
        while (!text.empty()) {
            const ssize_t size = ::write(fd, text.data(), text.size());
            if (size < 0) ::_exit(1);
            text.remove_prefix(static_cast<std::size_t>(size));
        }
    }

    // What two processes were answered until they were killed, a line each.
    std::string run_until_killed(const std::vector<durable::HandlerSettings>& handlers, std::mt19937& random) const {
        const Pipe answers;
        pid_t children[2];
        for (pid_t& child : children) {
            child = ::fork();
            if (child == 0) publish_for_ever(folder_.store(), handlers, answers.in);
        }
        // Counted from the first answer: how long a process takes to start says nothing.
        pollfd answered{answers.out, POLLIN, 0};
        ::poll(&answered, 1, 20000);
        ::usleep(random() % 300000);
        for (const pid_t child : children) ::kill(child, SIGKILL);
        for (const pid_t child : children) ::waitpid(child, nullptr, 0);
        return answers.read_all();
    }

    [[noreturn]] static void publish_for_ever(const std::string& path,
                                              const std::vector<durable::HandlerSettings>& handlers, int pipe) {
        StoreProbe store(path, handlers);
        for (int i = 0; i < 100000; ++i) {
            const auto done = store.publish(R"({"subject":"topic:a"})");
            if (done.status != 200) continue;
            const std::string line = StoreProbe::member(done.body, "id") + '\n';
            if (::write(pipe, line.data(), line.size()) < 0) break;
            ::usleep(2000);  // all of it must be delivered in the end
        }
        ::_exit(0);
    }

    void check_everything(const std::vector<durable::HandlerSettings>& handlers, const HttpReceiver& handler,
                          const std::set<std::string>& acknowledged) {
        StoreProbe store(folder_.store(), handlers);
        const auto last = store.publish(R"({"subject":"topic:a","data":"last"})");
        CPPUNIT_ASSERT_EQUAL_MESSAGE(last.body, 200, last.status);
        const std::string last_id = StoreProbe::member(last.body, "id");
        std::set<std::string> logged;
        std::string cursor;
        for (int page = 0; page < 10000 && cursor != "missing"; ++page) {
            const std::string body =
                store.call(durable::FetchJob{{"alice", std::nullopt}, "subject=topic:a&limit=200&after=" + cursor})
                    .body;
            for (std::size_t at = body.find("{\"id\":\""); at != std::string::npos;
                 at = body.find("{\"id\":\"", at + 1))
                logged.insert(body.substr(at + 7, 36));
            cursor = StoreProbe::member(body.substr(body.rfind(']')), "cursor");
        }
        for (const std::string& id : acknowledged)
            CPPUNIT_ASSERT_MESSAGE("lost from the log: " + id, logged.count(id) == 1);

        const auto is_delivered = [&] { return handler.last().body.find(last_id) != std::string::npos; };
        // As long as there is progress: a hundred rounds leave much to deliver.
        std::size_t seen = 0;
        for (int idle = 0; idle < 1000 && !is_delivered(); ++idle) {
            store.advance(100);  // retries need not be waited for
            store.collect(10);
            if (std::exchange(seen, handler.count()) != handler.count()) idle = 0;
        }
        const std::string state = store.call(durable::ListJob{{"alice", std::nullopt}, ""}).body + store.notices();
        CPPUNIT_ASSERT_MESSAGE(state + std::to_string(handler.count()) + " of " + std::to_string(logged.size()),
                               is_delivered());
        check_order(handler, logged);
    }

    // First deliveries come in the order of the log; a repetition is of the one that came last.
    static void check_order(const HttpReceiver& handler, const std::set<std::string>& logged) {
        std::set<std::string> delivered;
        long long newest = 0;
        for (const auto& request : handler.requests()) {
            const long long seq = std::stoll(StoreProbe::member(request.body, "seq"));
            CPPUNIT_ASSERT_MESSAGE(std::to_string(seq) + " after " + std::to_string(newest), seq >= newest);
            newest = seq;
            delivered.insert(StoreProbe::member(request.body, "id"));
        }
        CPPUNIT_ASSERT_EQUAL(logged.size(), delivered.size());
        CPPUNIT_ASSERT(logged == delivered);
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(EventsStoreFailuresTest);

}  // namespace
