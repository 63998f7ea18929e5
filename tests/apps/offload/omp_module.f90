! OpenMP in Fortran: variables of a module that live on the device (declare target), data that stays
! mapped from one routine to the next, and an array section in each step.
module omp_module_data
  implicit none
  integer, parameter :: cells = 400
  integer :: weights(cells)
  !$omp declare target(weights)
  integer, allocatable :: values(:)
contains
  integer function mixed(value, weight)
    !$omp declare target
    integer, intent(in) :: value, weight
    mixed = ieor(ishftc(value, 5), weight)
  end function

  subroutine open_data()
    integer :: i
    allocate (values(cells))
    values = [(i * i, i=1, cells)]
    weights = [(i * 77 + 5, i=1, cells)]
    !$omp target update to(weights)
    !$omp target enter data map(to: values)
  end subroutine

  subroutine advance(step)
    integer, intent(in) :: step
    integer :: i
    !$omp target teams distribute parallel do num_teams(2) thread_limit(4)
    do i = 1, cells
      values(i) = mixed(values(i), weights(i))
    end do
    !$omp target
    weights(1 + modulo(step, cells)) = weights(1 + modulo(step, cells)) + values(1)
    !$omp end target
  end subroutine

  subroutine close_data()
    !$omp target exit data map(from: values)
  end subroutine
end module

program omp_module
  use, intrinsic :: iso_fortran_env, only: error_unit
  use omp_module_data
  implicit none
  integer :: host(cells), host_weights(cells)
  integer :: step, steps, i, first
  character(len=16) :: text

  call get_command_argument(1, text)
  read (text, *) steps
  call open_data()
  host = values
  host_weights = weights
  do step = 1, steps
    call advance(step)
    host = [(mixed(host(i), host_weights(i)), i=1, cells)]
    i = 1 + modulo(step, cells)
    host_weights(i) = host_weights(i) + host(1)
    first = 1 + modulo(step * 37, cells - 20)
    !$omp target update from(values(first:first + 19))
    if (any(values(first:first + 19) /= host(first:first + 19))) then
      write (error_unit, *) 'step ', step, ': a value is wrong'
      stop 1
    end if
    print '(i0, 1x, i0)', step, values(first)
  end do
  call close_data()
  !$omp target update from(weights)
  if (any(values /= host) .or. any(weights /= host_weights)) then
    write (error_unit, *) 'the values are wrong'
    stop 1
  end if
  print '(i0)', values(::40)
  print '(a)', 'ok'
end program
