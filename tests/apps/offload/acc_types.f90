! OpenACC in Fortran: arrays of a derived type's components, array sections, atomic updates.
program acc_types
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  type :: population
    integer, allocatable :: ages(:), kinds(:)
  end type
  integer, parameter :: members = 600, groups = 8
  type(population) :: all, host
  integer :: counts(0:groups - 1), expected(0:groups - 1)
  integer :: step, steps, i, first, k
  character(len=16) :: text

  call get_command_argument(1, text)
  read (text, *) steps
  allocate (all%ages(members), all%kinds(members))
  allocate (host%ages(members), host%kinds(members))
  all%ages(:) = [(modulo(i * 37, 90), i=1, members)]
  all%kinds(:) = [(modulo(i * 11, groups), i=1, members)]
  host%ages(:) = all%ages
  host%kinds(:) = all%kinds
  !$acc enter data copyin(all)
  !$acc enter data copyin(all%ages, all%kinds)
  do step = 1, steps
    counts = 0
    !$acc parallel loop present(all%ages, all%kinds) copy(counts) num_gangs(4) vector_length(32)
    do i = 1, members
      all%ages(i) = modulo(all%ages(i) + all%kinds(i) + 1, 90)
      if (all%ages(i) < 20) then
        all%kinds(i) = modulo(all%kinds(i) + step, groups)
      end if
      !$acc atomic update
      counts(all%kinds(i)) = counts(all%kinds(i)) + 1
    end do
    expected = 0
    do i = 1, members
      host%ages(i) = modulo(host%ages(i) + host%kinds(i) + 1, 90)
      if (host%ages(i) < 20) host%kinds(i) = modulo(host%kinds(i) + step, groups)
      k = host%kinds(i)
      expected(k) = expected(k) + 1
    end do
    if (any(counts /= expected)) then
      write (error_unit, *) 'step ', step, ': a count is wrong'
      stop 1
    end if
    first = 1 + modulo(step * 29, members - 40)
    !$acc update self(all%ages(first:first + 39))
    if (any(all%ages(first:first + 39) /= host%ages(first:first + 39))) then
      write (error_unit, *) 'step ', step, ': an age is wrong'
      stop 1
    end if
    print '(i0, *(1x, i0))', step, counts
  end do
  !$acc exit data copyout(all%ages, all%kinds)
  !$acc exit data delete(all)
  if (any(all%ages /= host%ages) .or. any(all%kinds /= host%kinds)) then
    write (error_unit, *) 'the population is wrong'
    stop 1
  end if
  print '(i0)', sum(all%ages)
  print '(a)', 'ok'
end program
