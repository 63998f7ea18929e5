! OpenACC in Fortran: variables of a module that live on the device (declare), and a routine.
module acc_module_data
  implicit none
  integer, parameter :: cells = 256
  integer :: rule(0:7) = [0, 1, 1, 1, 0, 1, 1, 0]
  !$acc declare copyin(rule)
  integer :: line(0:cells - 1)
  !$acc declare create(line)
  integer :: next(0:cells - 1)
  !$acc declare create(next)
contains
  integer function new_cell(left, middle, right)
    !$acc routine seq
    integer, intent(in) :: left, middle, right
    new_cell = rule(left * 4 + middle * 2 + right)
  end function
end module

program acc_module
  use, intrinsic :: iso_fortran_env, only: error_unit
  use openacc
  use acc_module_data
  implicit none
  integer :: host(0:cells - 1), counts(0:cells - 1), host_counts(0:cells - 1)
  integer :: step, steps, i, alive
  character(len=16) :: text

  call get_command_argument(1, text)
  read (text, *) steps
  line = 0
  line(cells / 2) = 1
  line(3:9) = 1
  host = line
  counts = 0
  host_counts = 0
  call acc_update_device(line)
  !$acc data copy(counts)
  do step = 1, steps
    alive = 0
    !$acc parallel loop present(line, next, counts) reduction(+:alive) num_gangs(4) vector_length(32)
    do i = 0, cells - 1
      next(i) = new_cell(line(modulo(i - 1, cells)), line(i), line(modulo(i + 1, cells)))
      counts(i) = counts(i) + next(i)
      alive = alive + next(i)
    end do
    !$acc parallel loop present(line, next) num_gangs(4) vector_length(32)
    do i = 0, cells - 1
      line(i) = next(i)
    end do
    host = [(rule(host(modulo(i - 1, cells)) * 4 + host(i) * 2 + host(modulo(i + 1, cells))), &
      i=0, cells - 1)]
    host_counts = host_counts + host
    if (alive /= sum(host)) then
      write (error_unit, *) 'step ', step, ': the sum is wrong'
      stop 1
    end if
    print '(i0, 1x, i0)', step, alive
  end do
  !$acc end data
  call acc_update_self(line)
  if (any(line /= host) .or. any(counts /= host_counts)) then
    write (error_unit, *) 'the line is wrong'
    stop 1
  end if
  print '(*(i0, 1x))', counts(::16)
  print '(a)', 'ok'
end program
