// SPDX-License-Identifier: BSD-2-Clause
// Runs every registered test, or those whose name contains an argument
// ("ChannelTest", "ChannelTest::publish_wakes_each_worker_once").

#include <cppunit/BriefTestProgressListener.h>
#include <cppunit/CompilerOutputter.h>
#include <cppunit/Test.h>
#include <cppunit/TestResult.h>
#include <cppunit/TestResultCollector.h>
#include <cppunit/extensions/TestFactoryRegistry.h>

#include <iostream>
#include <memory>
#include <string>

namespace {

void run_matching(CppUnit::Test& test, const std::string& part, CppUnit::TestResult& events) {
    const int children = test.getChildTestCount();
    for (int i = 0; i < children; ++i) run_matching(*test.getChildTestAt(i), part, events);
    if (children == 0 && test.getName().find(part) != std::string::npos) test.run(&events);
}

}  // namespace

int main(int argc, char** argv) {
    CppUnit::TestResult events;
    CppUnit::TestResultCollector results;
    CppUnit::BriefTestProgressListener progress;
    events.addListener(&results);
    events.addListener(&progress);

    // A failure points at its test: the tests outlive the summary.
    const std::unique_ptr<CppUnit::Test> all(CppUnit::TestFactoryRegistry::getRegistry().makeTest());
    if (argc == 1) run_matching(*all, "", events);
    for (int i = 1; i < argc; ++i) run_matching(*all, argv[i], events);

    CppUnit::CompilerOutputter(&results, std::cout).write();
    if (results.runTests() == 0) {
        std::cerr << "no test was run\n";
        return 2;
    }
    return results.wasSuccessful() ? 0 : 1;
}
