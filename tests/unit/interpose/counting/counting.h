// A test's view of the counting library: the preloaded library's mechanics with handlers that only
// count.
#pragma once

extern "C" {

int counting_handled(const char* symbol);    // calls that reached this symbol's handler
const char* counting_last_kind();            // of the last call that reached one
int counting_sessions();                     // session starts
bool counting_abandoned();                   // a fork made this process leave its session
const char* counting_lost_sight();           // last name reported; "" for none
void* counting_wrapper(const char* symbol);  // null: not hooked
// The path of the calling thread, as text.
void counting_thread_path(char* text, unsigned long size);
// The files that were opened for reading, in order; null behind the last one.
const char* counting_opened_file(unsigned long number);
// Runs `body` as a handler would: with the guard held.
void counting_with_guard(void (*body)());
}
