! A wave on a string that is divided among the ranks. By `use mpi`, or with -DWAVE_F08 by
! `use mpi_f08`: they differ in the types of their handles alone.
#ifdef WAVE_F08
#define MPI_MODULE mpi_f08
#define COMMUNICATOR type(MPI_Comm)
#define REQUEST type(MPI_Request)
#define STATUS type(MPI_Status) :: status
#define SOURCE status%MPI_SOURCE
#else
#define MPI_MODULE mpi
#define COMMUNICATOR integer
#define REQUEST integer
#define STATUS integer :: status(MPI_STATUS_SIZE)
#define SOURCE status(MPI_SOURCE)
#endif

program wave
  use, intrinsic :: iso_c_binding, only: c_double, c_int, c_int64_t
  use, intrinsic :: iso_fortran_env, only: error_unit, output_unit, real64
  use MPI_MODULE
  implicit none

  interface
    function gpu_count() bind(c) result(devices)
      import :: c_int
      integer(c_int) :: devices
    end function
    subroutine gpu_open(device, first, cells, whole) bind(c)
      import :: c_int
      integer(c_int), value :: device, first, cells, whole
    end subroutine
    subroutine gpu_ends(left, right) bind(c)
      import :: c_double
      real(c_double), intent(out) :: left, right
    end subroutine
    subroutine gpu_extend(left, right) bind(c)
      import :: c_double
      real(c_double), value :: left, right
    end subroutine
    subroutine gpu_step() bind(c)
    end subroutine
    subroutine gpu_measure(digest, greatest) bind(c)
      import :: c_int64_t
      integer(c_int64_t), intent(out) :: digest, greatest
    end subroutine
    subroutine gpu_close() bind(c)
    end subroutine
  end interface

  integer, parameter :: whole = 16384, default_steps = 400
  integer, parameter :: reported = 5, gathered = 10, shown = 50  ! every so many steps
  integer, parameter :: tag_left = 1, tag_right = 2, tag_digest = 3

  integer :: ranks, rank, left, right, first, cells, steps, step, file, ierror
  real(c_double), asynchronous :: own(2), theirs(2)  ! cells at the left and the right
  double precision :: latest

  steps = steps_from_command_line()
  call mpi_init(ierror)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, ierror)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, ierror)
  call open_report()
  call take_part()
  latest = mpi_wtime()

  do step = 1, steps
    call gpu_ends(own(1), own(2))
    if (mod(step, 2) == 1) then
      call exchange_at_once()
    else
      call exchange_in_turn()
    end if
    call gpu_extend(theirs(1), theirs(2))
    call gpu_step()
    if (mod(step, reported) == 0 .or. step == steps) call tell()
    call look_at_time()
  end do

  call gpu_close()
  call finish()
  call mpi_finalize(ierror)

contains

  integer function steps_from_command_line() result(number)
    character(len=16) :: text
    integer :: problem
    number = default_steps
    if (command_argument_count() == 0) return
    call get_command_argument(1, text)
    read (text, *, iostat=problem) number
    if (command_argument_count() == 1 .and. problem == 0 .and. number >= 1) return
    write (error_unit, '(a)') 'wave: usage: [steps]'
    stop 1
  end function

  subroutine fail(why)
    character(len=*), intent(in) :: why
    write (error_unit, '(2a)') 'wave: ', why
    call mpi_abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine

  ! ---- what a rank tells, line by line ----

  subroutine open_report()
    character(len=16) :: name
    write (name, '(a, i0)') 'out.', rank
    open (newunit=file, file=trim(name), status='replace', action='write')
  end subroutine

  subroutine finish()
    write (file, '(a)') 'ok'
    close (file)
    if (rank /= 0) return
    write (output_unit, '(a)') 'ok'
    flush (output_unit)
  end subroutine

  subroutine tell()
    integer(c_int64_t) :: digest, total, greatest, bits
    real(c_double) :: amplitude
    call gpu_measure(digest, greatest)
    call mpi_allreduce(digest, total, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, ierror)
    ! The bits of what is not negative are in the order of its values.
    call mpi_allreduce(greatest, bits, 1, MPI_INTEGER8, MPI_MAX, MPI_COMM_WORLD, ierror)
    amplitude = transfer(bits, amplitude)
    if (amplitude > 2) call fail('the wave grew')
    if (mod(step, gathered) == 0) then
      call gather(digest, total)
      call mpi_barrier(MPI_COMM_WORLD, ierror)
    end if
    write (file, '(a, i0, a, z16.16, a, z16.16, a, z16.16)') 'step ', step, ': digest ', digest, &
      ' of ', total, ', greatest ', bits
    flush (file)
    if (rank /= 0 .or. (mod(step, shown) /= 0 .and. step /= steps)) return
    write (output_unit, '(a, i0, a, f12.9)') 'step ', step, ': greatest ', amplitude
    flush (output_unit)
  end subroutine

  ! ---- the other ranks ----

  subroutine take_part()
    COMMUNICATOR :: node
    integer :: place, devices
    call mpi_comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node, ierror)
    call mpi_comm_rank(node, place, ierror)
    call mpi_comm_free(node, ierror)
    devices = gpu_count()
    if (devices == 0) call fail('there is no device')
    left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    right = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
    first = whole / ranks * rank
    cells = merge(whole / ranks, whole - first, rank + 1 < ranks)
    call gpu_open(mod(place, devices), first, cells, whole)
    theirs = 0  ! where there is no neighbour the string is held
  end subroutine

  subroutine exchange_at_once()
    REQUEST :: requests(4)
    call mpi_irecv(theirs(1), 1, MPI_DOUBLE_PRECISION, left, tag_right, MPI_COMM_WORLD, &
                   requests(1), ierror)
    call mpi_irecv(theirs(2), 1, MPI_DOUBLE_PRECISION, right, tag_left, MPI_COMM_WORLD, &
                   requests(2), ierror)
    call mpi_isend(own(1), 1, MPI_DOUBLE_PRECISION, left, tag_left, MPI_COMM_WORLD, &
                   requests(3), ierror)
    call mpi_isend(own(2), 1, MPI_DOUBLE_PRECISION, right, tag_right, MPI_COMM_WORLD, &
                   requests(4), ierror)
    call mpi_waitall(4, requests, MPI_STATUSES_IGNORE, ierror)
  end subroutine

  subroutine exchange_in_turn()
    call mpi_sendrecv(own(2), 1, MPI_DOUBLE_PRECISION, right, tag_right, &
                      theirs(1), 1, MPI_DOUBLE_PRECISION, left, tag_right, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call mpi_sendrecv(own(1), 1, MPI_DOUBLE_PRECISION, left, tag_left, &
                      theirs(2), 1, MPI_DOUBLE_PRECISION, right, tag_left, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  end subroutine

  ! To the first rank, in whatever order they come: it is a sum.
  subroutine gather(digest, total)
    integer(c_int64_t), intent(in) :: digest, total
    integer(c_int64_t) :: sum_of_all, one
    logical :: heard(0:ranks - 1)
    integer :: message
    STATUS
    if (rank /= 0) then
      call mpi_send(digest, 1, MPI_INTEGER8, 0, tag_digest, MPI_COMM_WORLD, ierror)
      return
    end if
    sum_of_all = digest
    heard = .false.
    do message = 1, ranks - 1
      call mpi_recv(one, 1, MPI_INTEGER8, MPI_ANY_SOURCE, tag_digest, MPI_COMM_WORLD, status, ierror)
      if (heard(SOURCE)) call fail('a rank was heard twice')
      heard(SOURCE) = .true.
      sum_of_all = sum_of_all + one
    end do
    if (sum_of_all /= total) call fail('two sums of the same differ')
  end subroutine

  ! Nothing depends on the time.
  subroutine look_at_time()
    double precision :: now
    now = mpi_wtime()
    if (now < latest - 1) call fail('time ran backwards')
    latest = now
  end subroutine

end program
