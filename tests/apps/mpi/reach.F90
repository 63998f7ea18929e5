! Device memory in MPI calls from Fortran: `own` and `theirs` are words of the device. By `use mpi`,
! or with -DREACH_F08 by `use mpi_f08`. The words that come to the host decide what is sent next.
#ifdef REACH_F08
#define MPI_MODULE mpi_f08
#define COMMUNICATOR type(MPI_Comm)
#define DATATYPE type(MPI_Datatype)
#define REQUEST type(MPI_Request)
#define MESSAGE type(MPI_Message)
#else
#define MPI_MODULE mpi
#define COMMUNICATOR integer
#define DATATYPE integer
#define REQUEST integer
#define MESSAGE integer
#endif

program reach
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int, c_int64_t, c_ptr
  use, intrinsic :: iso_fortran_env, only: error_unit, output_unit
  use MPI_MODULE
  implicit none

  interface
    function gpu_count() bind(c) result(devices)
      import :: c_int
      integer(c_int) :: devices
    end function
    subroutine gpu_open(device, rank) bind(c)
      import :: c_int
      integer(c_int), value :: device, rank
    end subroutine
    function gpu_words(number) bind(c) result(words)
      import :: c_int, c_ptr
      integer(c_int), value :: number
      type(c_ptr) :: words
    end function
    subroutine gpu_pack(words, number, salt) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: words
      integer(c_int), value :: number, salt
    end subroutine
    subroutine gpu_absorb(words, number) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: words
      integer(c_int), value :: number
    end subroutine
    subroutine gpu_measure(digest) bind(c)
      import :: c_int64_t
      integer(c_int64_t), intent(out) :: digest
    end subroutine
    subroutine gpu_close() bind(c)
    end subroutine
  end interface

  integer, parameter :: part = 50, default_steps = 120, kinds = 14
  integer, parameter :: reported = 5, shown = 40  ! every so many steps
  integer, parameter :: tag = 7, standing_tag = 8, tag_section = 9

  integer :: ranks, rank, left, right, all_words, steps, step, file, ierror, i
  integer(c_int) :: seen = 1
  type(c_ptr) :: own_words, their_words
  integer(c_int), pointer, contiguous, asynchronous :: own(:), theirs(:)  ! on the device
  integer(c_int), allocatable, asynchronous :: host(:)
  integer, allocatable :: counts(:), places(:)
  REQUEST :: standing(2)

  steps = steps_from_command_line()
  call mpi_init(ierror)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, ierror)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, ierror)
  call open_report()
  call take_part()

  do step = 1, steps
    call gpu_absorb(their_words, all_words)
    call gpu_pack(own_words, all_words, 31 * step + seen)
    if (mod(step, 3) == 0) call gpu_pack(their_words, all_words, 17 * step)
    call exchange(mod(step, kinds))
    call start_standing()
    call look()
    call mpi_barrier(MPI_COMM_WORLD, ierror)
    if (mod(step, reported) == 0 .or. step == steps) call tell()
  end do

  call mpi_request_free(standing(1), ierror)
  call mpi_request_free(standing(2), ierror)
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
    write (error_unit, '(a)') 'reach: usage: [steps]'
    stop 1
  end function

  subroutine fail(why)
    character(len=*), intent(in) :: why
    write (error_unit, '(2a)') 'reach: ', why
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
    integer(c_int64_t) :: digest
    call gpu_measure(digest)
    write (file, '(a, i0, a, z16.16, a, z8.8)') 'step ', step, ': digest ', digest, ', seen ', seen
    flush (file)
    if (rank /= 0 .or. (mod(step, shown) /= 0 .and. step /= steps)) return
    write (output_unit, '(a, i0)') 'step ', step
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
    left = mod(rank + ranks - 1, ranks)
    right = mod(rank + 1, ranks)
    all_words = part * (ranks + 2)
    call gpu_open(mod(place, devices), rank)
    own_words = gpu_words(all_words)
    their_words = gpu_words(all_words)
    call c_f_pointer(own_words, own, [all_words])
    call c_f_pointer(their_words, theirs, [all_words])
    allocate (host(all_words), counts(ranks), places(ranks))
    host = 0
    ! The last ones first, where there are several.
    places = [(merge(part * (ranks - i) + 2, 0, ranks > 1), i = 1, ranks)]
    call mpi_recv_init(theirs(part * ranks + 3), 20, MPI_INTEGER, left, standing_tag, &
                       MPI_COMM_WORLD, standing(1), ierror)
    call mpi_send_init(own(9), 20, MPI_INTEGER, right, standing_tag, MPI_COMM_WORLD, &
                       standing(2), ierror)
  end subroutine

  subroutine start_standing()
    if (mod(step, 2) == 0) then
      call mpi_startall(2, standing, ierror)
    else
      call mpi_start(standing(1), ierror)
      call mpi_start(standing(2), ierror)
    end if
    call mpi_waitall(2, standing, MPI_STATUSES_IGNORE, ierror)
  end subroutine

  ! From the first rank's device to the host of all.
  subroutine look()
    integer(c_int) :: sum_of_all(1)
    call mpi_allreduce(theirs(5), sum_of_all, 1, MPI_INTEGER, MPI_BXOR, MPI_COMM_WORLD, ierror)
    seen = ieor(ishftc(seen, 5), sum_of_all(1))
    if (mod(step, kinds) == 2) seen = ieor(seen, host(3))
  end subroutine

  subroutine exchange(kind)
    integer, intent(in) :: kind
    REQUEST :: requests(2)
    MESSAGE :: one
    integer :: root, at
    root = mod(step, ranks)
    counts = [(5 + mod(3 * i + step, 40), i = 1, ranks)]
    requests = MPI_REQUEST_NULL
    select case (kind)
    case (0)
      call mpi_sendrecv(own, 40, MPI_INTEGER, right, tag, theirs, 40, MPI_INTEGER, left, tag, &
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    case (1)
      call mpi_irecv(theirs(3), 30, MPI_INTEGER, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &
                     requests(1), ierror)
      call mpi_isend(own(4), 30, MPI_INTEGER, right, tag, MPI_COMM_WORLD, requests(2), ierror)
      call mpi_waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    case (2)
      call mpi_gatherv(own, counts(rank + 1), MPI_INTEGER, host, counts, places, MPI_INTEGER, &
                       root, MPI_COMM_WORLD, ierror)
      call mpi_bcast(host, all_words, MPI_INTEGER, root, MPI_COMM_WORLD, ierror)
    case (3)
      call mpi_scatterv(own, counts, places, MPI_INTEGER, theirs, counts(rank + 1), MPI_INTEGER, &
                        root, MPI_COMM_WORLD, ierror)
    case (4)
      call mpi_allreduce(MPI_IN_PLACE, theirs, 45, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    case (5)
      call mpi_iallgatherv(own, counts(rank + 1), MPI_INTEGER, theirs, counts, places, &
                           MPI_INTEGER, MPI_COMM_WORLD, requests(1), ierror)
      call mpi_wait(requests(1), MPI_STATUS_IGNORE, ierror)
    case (6)
      call mpi_bcast(theirs, 48, MPI_INTEGER, root, MPI_COMM_WORLD, ierror)
    case (7)
      counts = 20
      call mpi_alltoallv(own, counts, places, MPI_INTEGER, theirs, counts, places, MPI_INTEGER, &
                         MPI_COMM_WORLD, ierror)
    case (8)
      call mpi_reduce(own, theirs, 40, MPI_INTEGER, MPI_BXOR, root, MPI_COMM_WORLD, ierror)
    case (9)
      call mpi_reduce_scatter(own, theirs, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    case (10)
      call mpi_isend(own(2), 33, MPI_INTEGER, right, tag, MPI_COMM_WORLD, requests(2), ierror)
      call mpi_mprobe(left, tag, MPI_COMM_WORLD, one, MPI_STATUS_IGNORE, ierror)
      call mpi_mrecv(theirs(6), 33, MPI_INTEGER, one, MPI_STATUS_IGNORE, ierror)
      call mpi_wait(requests(2), MPI_STATUS_IGNORE, ierror)
    case (11)
      at = 0
      call mpi_pack(own, 25, MPI_INTEGER, host, 4 * all_words, at, MPI_COMM_WORLD, ierror)
      at = 0
      call mpi_unpack(host, 4 * all_words, at, theirs(2), 25, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    case (12)
      call mpi_iallreduce(own, theirs, 44, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1), ierror)
      call mpi_wait(requests(1), MPI_STATUS_IGNORE, ierror)
    case default
      ! A section of an array of the host's has gaps.
      call mpi_sendrecv(host(1:19:2), 10, MPI_INTEGER, right, tag_section, theirs, 10, &
                        MPI_INTEGER, left, tag_section, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    end select
  end subroutine

end program
