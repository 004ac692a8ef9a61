#!/usr/bin/env bash
# Mistakes are put into the sources under cuda/, one at a time, and the tests of CUDA have to see each of them.
# The lists in tests/slow/cuda_mistakes/*.txt have entries of these lines:
#
#   @mistake WHAT    begins one
#   @tests PATTERN   Criterion's pattern of tests that have to fail
#   @file PATH       what is changed; again for another file
#   @find            the lines that follow stand there exactly once,
#   @put             and the lines after this word take their place,
#   @end             up to here; again for another change
#
# A copy of cuda/ gets the change, what depends on the file is compiled anew - by the commands that make uses -
# and linked before the archive of the emulated CUDA half, so that it takes the place of the sound object. A test
# that crashes or never ends has seen the mistake too. The tests pass without it: that is asked first.
#
# Arguments: words; only mistakes with one of them in their description are tried.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

scratch=build/mistakes
jobs=$(nproc 2>/dev/null || echo 2)
read -ra make <<<"${MAKE:-make}"
rm -rf "$scratch"
mkdir -p "$scratch"

# ---- the lists --------------------------------------------------------------------------------------------

# Writes every mistake to a folder of its own: what, tests, and of each change N: N.file, N.find, N.put.
split_lists() {
    awk -v scratch="$scratch" '
        function flush_part() { if (into != "") close(into); into = "" }
        /^@mistake / {
            flush_part(); number++; change = 0
            folder = scratch "/" sprintf("%03d", number)
            system("mkdir -p " folder)
            print substr($0, 10) > (folder "/what"); close(folder "/what")
            next
        }
        /^@tests / { print $2 > (folder "/tests"); close(folder "/tests"); next }
        /^@file / { file = $2; next }
        /^@find$/ {
            flush_part(); change++
            print file > (folder "/" change ".file"); close(folder "/" change ".file")
            printf "" > (folder "/" change ".put"); close(folder "/" change ".put")
            into = folder "/" change ".find"; next
        }
        /^@put$/ { close(into); into = folder "/" change ".put"; next }
        /^@end$/ { flush_part(); next }
        /^@/ { print FILENAME ": there is no " $1 > "/dev/stderr"; exit 1 }
        into != "" { print > into }
    ' tests/slow/cuda_mistakes/*.txt
}

# ---- building ---------------------------------------------------------------------------------------------

# The commands that make would use, one a line, and what the tests are linked from.
ask_make() {
    "${make[@]}" -n build/tests/foldmill_tests 2>/dev/null |
        sed -e ':more' -e '/\\$/ { N; s/\\\n//; b more' -e '}' >"$scratch/commands"
    link=$(grep -e ' -o build/tests/foldmill_tests ' "$scratch/commands" | tail -n 1)
    [ -n "$link" ] || return 1
    local word
    link_options=() link_libraries=() tests_of_cuda=() other_objects=()
    for word in $link; do
        case $word in
        build/obj/tests/cuda/test_sweep.o) ;; # runs the program, which has no mistakes in it
        build/obj/tests/cuda/*.o) tests_of_cuda+=("$word") ;;
        *.o) other_objects+=("$word") ;;
        -l*) link_libraries+=("$word") ;;
        -Wl,--wrap*) link_options+=("$word") ;;
        esac
    done
    rm -f "$scratch/rest.a"
    ar rcs "$scratch/rest.a" "${other_objects[@]}"
}

# link_tests PROGRAM OBJECT...: the tests of CUDA with these objects in place of those of the archive.
link_tests() {
    local program=$1
    shift
    ${CC:-gcc} "${link_options[@]}" -Wl,-S -o "$program" "$@" "${tests_of_cuda[@]}" "$scratch/rest.a" \
        build/emulated/libfoldmill_cuda.a build/libfoldmill.a "${link_libraries[@]}"
}

# compile FOLDER SOURCE: the copy of a source in FOLDER, to FOLDER/N.o. Mistakes may leave something unused.
compile() {
    local folder=$1 source=$2 command words
    command=$(grep -e " -c $source " "$scratch/commands" | tail -n 1)
    if [ -z "$command" ]; then
        echo "make does not say how $source is compiled"
        return 1
    fi
    command=${command%% -MMD*}
    eval "words=($command)"
    local word arguments=()
    for word in "${words[@]}"; do
        case $word in
        -Icuda) arguments+=("-I$folder/cuda") ;;
        -Werror | -g | -O*) ;;
        *) arguments+=("$word") ;;
        esac
    done
    local language=()
    if [[ $source == *.cu ]]; then language=(-x c++); fi
    "${arguments[@]}" -w -O1 "${language[@]}" -c "$folder/$source" -o "$folder/$(basename "$source").o"
}

# The emulated sources that are made from a file, by make's lists of dependencies.
made_from() {
    local list
    grep -lE "(^| )$1( |\$|:)" -r --include='*.d' build/emulated/obj/cuda | while read -r list; do
        list=${list#build/emulated/obj/}
        echo "${list%.d}"
    done
}

# change FOLDER: every find becomes its put.
change() {
    local folder=$1 number=0 file find put text after
    cp -r cuda "$folder/cuda"
    while [ -f "$folder/$((number + 1)).file" ]; do
        number=$((number + 1))
        file=$(<"$folder/$number.file")
        find=$(<"$folder/$number.find") put=$(<"$folder/$number.put")
        text=$(<"$folder/$file") || return 1
        after=${text#*"$find"}
        if [ -z "$find" ] || [ "$after" = "$text" ]; then
            echo "the mistake no longer applies: $file has no"
            sed 's/^/    /' "$folder/$number.find"
            return 1
        fi
        if [ "${after#*"$find"}" != "$after" ]; then
            echo "the mistake is not clear: $file has more than one"
            sed 's/^/    /' "$folder/$number.find"
            return 1
        fi
        printf '%s%s%s\n' "${text%%"$find"*}" "$put" "$after" >"$folder/$file"
    done
    [ "$number" -gt 0 ]
}

# ---- running ----------------------------------------------------------------------------------------------

# run_tests PROGRAM PATTERN SECONDS LOG
run_tests() {
    timeout -k 1 "$3" "$1" --filter "$2" --jobs 1 --timeout "$3" >"$4" 2>&1
}

key_of() { printf '%s' "$1" | tr -c 'a-z0-9_' '-'; }

# A pattern passes without mistakes, and how long that takes decides when a test counts as endless.
sound() {
    local pattern=$1 log began
    log=$scratch/sound-$(key_of "$pattern")
    began=$EPOCHREALTIME
    if ! run_tests "$scratch/sound" "$pattern" 100 "$log" || ! grep -aq 'Passing: [^0]*[1-9]' "$log"; then
        tail -n 5 "$log"
        rm -f "$log"
        return 1
    fi
    awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%d\n", 6 * (b - a) + 10 }' >"$log.limit"
}

# One mistake: what came of it goes to FOLDER/result.
try() {
    local folder=$1 pattern limit number sources source objects=() status
    pattern=$(<"$folder/tests")
    limit=$(cat "$scratch/sound-$(key_of "$pattern").limit" 2>/dev/null) || return
    change "$folder" >"$folder/log" || return
    sources=$(for number in "$folder"/*.file; do made_from "$(<"$number")"; done | sort -u)
    for source in $sources; do
        if ! compile "$folder" "$source" >>"$folder/log" 2>&1; then
            echo "it does not compile" >>"$folder/log"
            return
        fi
        objects+=("$folder/$(basename "$source").o")
    done
    if [ ${#objects[@]} -eq 0 ]; then
        echo "nothing is made from what was changed" >"$folder/log"
        return
    fi
    if ! link_tests "$folder/tests_with_it" "${objects[@]}" >>"$folder/log" 2>&1; then return; fi
    run_tests "$folder/tests_with_it" "$pattern" "$limit" "$folder/log"
    status=$?
    case $status in
    0) echo "all tests passed: $pattern" >>"$folder/log" ;;
    124 | 137) echo "seen: never ends" >"$folder/result" ;;
    *) echo "seen" >"$folder/result" ;;
    esac
}

# each FUNCTION ARGUMENT...: the function with every argument, some at a time.
each() {
    local function=$1 running=0
    shift
    for argument in "$@"; do
        if [ "$running" -ge "$jobs" ]; then
            wait -n
            running=$((running - 1))
        fi
        "$function" "$argument" &
        running=$((running + 1))
    done
    wait
}

chosen() {
    local word
    if [ $# -eq 1 ]; then return 0; fi
    for word in "${@:2}"; do
        if grep -qF -e "$word" "$1/what"; then return 0; fi
    done
    return 1
}

if ! "${make[@]}" -s -j"$jobs" build/tests/foldmill_tests || ! split_lists || ! ask_make ||
    ! link_tests "$scratch/sound" 2>"$scratch/log"; then
    tail -n 20 "$scratch/log"
    bad "the tests of CUDA build"
    summary
fi
folders=()
for folder in "$scratch"/[0-9]*; do
    if chosen "$folder" "$@"; then folders+=("$folder"); fi
done
mapfile -t patterns < <(for folder in "${folders[@]}"; do cat "$folder/tests"; done | sort -u)
each sound "${patterns[@]}"
for pattern in "${patterns[@]}"; do
    if [ -f "$scratch/sound-$(key_of "$pattern").limit" ]; then
        ok "without mistakes: $pattern"
    else
        bad "without mistakes: $pattern"
    fi
done
each try "${folders[@]}"
for folder in "${folders[@]}"; do
    if [ -f "$folder/result" ]; then
        ok "$(<"$folder/result"): $(<"$folder/what")"
        rm -rf "$folder"
    else
        bad "not seen: $(<"$folder/what")"
        tail -n 12 "$folder/log" 2>/dev/null | sed 's/^/    /'
    fi
done
summary
