#pragma once

#include "device.h"

// A position and a mass, or a velocity and nothing.
struct alignas(16) Body {
  float x, y, z, w;
};

constexpr float kSoftening = 0.01f;

BOTH void attract(const Body& self, const Body& other, float& ax, float& ay, float& az) {
  const float dx = other.x - self.x;
  const float dy = other.y - self.y;
  const float dz = other.z - self.z;
  const float square = dx * dx + dy * dy + dz * dz + kSoftening;
  const float pull = other.w / (square * square_root(square));
  ax += dx * pull;
  ay += dy * pull;
  az += dz * pull;
}

BOTH void move(Body& body, Body& velocity, float ax, float ay, float az, float time) {
  velocity.x += ax * time;
  velocity.y += ay * time;
  velocity.z += az * time;
  body.x += velocity.x * time;
  body.y += velocity.y * time;
  body.z += velocity.z * time;
}
