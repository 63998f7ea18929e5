! OpenMP in Fortran: a lattice of spins in two colours; a data region, collapsed loops, reductions.
program omp_lattice
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  integer, parameter :: width = 24
  integer, allocatable :: spins(:, :), host(:, :)
  integer :: step, steps, x, y, turned, colour, field
  character(len=16) :: text

  call get_command_argument(1, text)
  read (text, *) steps
  allocate (spins(0:width - 1, 0:width - 1))
  do y = 0, width - 1
    do x = 0, width - 1
      spins(x, y) = merge(1, -1, modulo(x * 7 + y * 13 + x * y, 5) < 2)
    end do
  end do
  host = spins
  !$omp target data map(tofrom: spins)
  do step = 1, steps
    colour = modulo(step, 2)
    turned = 0
    !$omp target teams distribute parallel do collapse(2) reduction(+:turned) map(tofrom: turned) &
    !$omp& private(field) num_teams(4) thread_limit(2)
    do y = 0, width - 1
      do x = 0, width - 1
        if (modulo(x + y, 2) /= colour) cycle
        field = spins(modulo(x - 1, width), y) + spins(modulo(x + 1, width), y) &
          + spins(x, modulo(y - 1, width)) + spins(x, modulo(y + 1, width)) &
          + merge(1, -1, modulo(x * 3 + y * 5 + step, 7) < 3)
        if (field * spins(x, y) < 0) then
          spins(x, y) = -spins(x, y)
          turned = turned + 1
        end if
      end do
    end do
    if (turned /= expected_step()) then
      write (error_unit, *) 'step ', step, ': the sum is wrong'
      stop 1
    end if
    if (modulo(step, 10) == 0) then
      !$omp target update from(spins)
      if (any(spins /= host)) then
        write (error_unit, *) 'step ', step, ': the lattice is wrong'
        stop 1
      end if
    end if
    print '(i0, 1x, i0)', step, turned
  end do
  !$omp end target data
  print '(*(i0, 1x))', sum(spins, 1)
  print '(a)', 'ok'

contains

  integer function expected_step() result(count)
    integer :: i, j, around
    count = 0
    do j = 0, width - 1
      do i = 0, width - 1
        if (modulo(i + j, 2) /= colour) cycle
        around = host(modulo(i - 1, width), j) + host(modulo(i + 1, width), j) &
          + host(i, modulo(j - 1, width)) + host(i, modulo(j + 1, width)) &
          + merge(1, -1, modulo(i * 3 + j * 5 + step, 7) < 3)
        if (around * host(i, j) >= 0) cycle
        host(i, j) = -host(i, j)
        count = count + 1
      end do
    end do
  end function
end program
