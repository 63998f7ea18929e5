#pragma once

#include "device.h"

// A link of a chain that exists in device memory only.
struct Node {
  Node* next;
  unsigned long long* total;  // in another allocation
  unsigned key;
  unsigned home;  // its number
};

constexpr unsigned kNodes = 4096;
constexpr unsigned kPoolNodes = 512;  // nodes an allocation
constexpr unsigned kPools = kNodes / kPoolNodes;
constexpr unsigned kHops = 48;

BOTH unsigned long long mixed(unsigned long long sum, unsigned key) {
  return (sum ^ key) * 0x9e3779b97f4a7c15u + (sum >> 29);
}
