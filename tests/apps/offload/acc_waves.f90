! OpenACC in Fortran: two allocatable arrays take turns in a data region; reductions of two kinds.
program acc_waves
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  implicit none
  integer, parameter :: width = 600
  integer(int64), allocatable :: now(:), before(:), next(:), host(:), host_before(:)
  integer(int64) :: total, most
  integer :: step, steps, i
  character(len=16) :: text

  call get_command_argument(1, text)
  read (text, *) steps
  allocate (now(width), before(width), next(width))
  now = [(merge(1000000_int64, 0_int64, i > 250 .and. i < 280), i=1, width)]
  before = now
  next = 0
  host = now
  host_before = now
  !$acc data copy(now, before, next)
  do step = 1, steps
    total = 0
    most = 0
    !$acc parallel loop reduction(+:total) reduction(max:most) num_gangs(4) vector_length(32)
    do i = 2, width - 1
      next(i) = 2 * now(i) - before(i) + (now(i - 1) - 2 * now(i) + now(i + 1)) / 4
      total = total + next(i)
      most = max(most, abs(next(i)))
    end do
    !$acc kernels
    before(:) = now(:)
    now(2:width - 1) = next(2:width - 1)
    !$acc end kernels
    call expected_step()
    if (total /= sum(host(2:width - 1)) .or. most /= maxval(abs(host(2:width - 1)))) then
      write (error_unit, *) 'step ', step, ': a sum is wrong'
      stop 1
    end if
    print '(i0, 2(1x, i0))', step, total, most
  end do
  !$acc end data
  if (any(now /= host) .or. any(before /= host_before)) then
    write (error_unit, *) 'the wave is wrong'
    stop 1
  end if
  print '(i0)', sum(now * [(int(i, int64), i=1, width)])
  print '(a)', 'ok'

contains

  subroutine expected_step()
    integer(int64) :: new(width)
    new = 0
    new(2:width - 1) = 2 * host(2:width - 1) - host_before(2:width - 1) &
      + (host(1:width - 2) - 2 * host(2:width - 1) + host(3:width)) / 4
    host_before = host
    host(2:width - 1) = new(2:width - 1)
  end subroutine
end program
