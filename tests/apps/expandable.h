#pragma once

#include "device.h"

constexpr unsigned kPieceBytes = 2 << 20;
constexpr unsigned kPieceWords = kPieceBytes / 4;
// Each piece of the vector has only this many words that count, spread over all of the piece.
constexpr unsigned kCells = 400;
constexpr unsigned kStep = kPieceWords / kCells;

BOTH unsigned stirred(unsigned value, unsigned next, unsigned salt) {
  value = (value ^ (next >> 7)) * 2654435761u + salt;
  return value ^ (value >> 15);
}
// The word of a cell, of all cells of a vector.
BOTH unsigned word_of(unsigned cell) {
  return cell / kCells * kPieceWords + cell % kCells * kStep;
}
