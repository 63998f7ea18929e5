// For wrappers of functions of the C library: exports gpusnap_NAME as NAME, under the C library's
// own versions, since a program asks for it by version. Once in a source file, which then says
//
//   asm("gpusnap_export open, GLIBC_2.2.5");            // the version that programs are linked to
//   asm("gpusnap_export_old sem_timedwait, GLIBC_2.2.5");  // an earlier one of the same function
#pragma once

#define GPUSNAP_EXPORTED [[gnu::visibility("hidden"), gnu::used]]

asm(R"(
  .macro gpusnap_export name, version
  .globl gpusnap_exported_\name
  .set gpusnap_exported_\name, gpusnap_\name
  .symver gpusnap_exported_\name, \name@@\version, remove
  .endm
  .macro gpusnap_export_old name, version
  .globl gpusnap_exported_old_\name
  .set gpusnap_exported_old_\name, gpusnap_\name
  .symver gpusnap_exported_old_\name, \name@\version, remove
  .endm
)");
