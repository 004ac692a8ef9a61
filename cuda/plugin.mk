# The real plug-ins, one per CUDA major version: build/libfoldmill_cuda13.so and its sisters. The Makefile includes
# this for its goal plugins-run, when scripts/cuda_probe.sh's answer $(B)/cuda.mk is there.
#
# A plug-in holds what it needs of libfoldmill.a and of CUDA's run-time library; it needs neither the driver's library
# nor cuBLAS nor cuDNN to be loaded (the last two are opened at run time), or a machine without them could not load it
# to be told why it cannot be used. It exports one function.
include $(B)/cuda.mk

# MAJOR=12 builds that one only, and fails when there is no toolkit of it.
PLUGIN_SOURCES := $(CUDA_SOURCES) $(wildcard cuda/library/*.cu)
MAJORS := $(strip $(if $(MAJOR),$(filter $(MAJOR),$(CUDA_MAJORS)),$(CUDA_MAJORS)))
PLUGINS := $(foreach major,$(MAJORS),$(B)/libfoldmill_cuda$(major).so)

plugins-run: $(PLUGINS)
ifeq ($(PLUGINS),)
	@echo "No CUDA plug-in: $(if $(MAJOR),no toolkit of CUDA $(MAJOR) was found. )$(CUDA_NOTES)" >&2; exit $(if $(MAJOR),1,0)
endif
ifeq ($(MAJOR),)
# One whose toolkit has gone would be installed and opened all the same.
	@rm -f $(filter-out $(PLUGINS),$(wildcard $(B)/libfoldmill_cuda*.so))
endif

# $(1) = major version. Products and sums are written as fmaf where they are meant to be one operation, so nvcc may
# contract none by itself: device and emulator round alike.
define PLUGIN
HOST_$(1) = $$(ALL_CFLAGS) -Icuda $$(CUDA_$(1)_INCLUDE) -DFM_LIBDIRS='"$$(CUDA_$(1)_LIBDIRS)"' \
	-DFM_CUDA_NAME=$(1)
DEVICE_$(1) = -std=c++14 -O3 $$(CUDA_$(1)_GENERATE) -Wno-deprecated-gpu-targets -fmad=false -lineinfo \
	$$(if $$(WERROR),$$(CUDA_$(1)_WARNINGS)) -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-Wall,-Wno-unused-function$$(if $$(WERROR),$$(comma)-Werror) \
	-Isrc -Iinclude -Icuda
OBJECTS_$(1) := $(patsubst %,$(B)/cuda$(1)/obj/%.o,$(PLUGIN_SOURCES))

$(B)/cuda$(1)/flags: FORCE
	@mkdir -p $$(@D)
	@printf '%s\n' '$$(subst ','\'',$$(CC) $$(HOST_$(1)) $$(CUDA_$(1)_NVCC) $$(DEVICE_$(1)) $$(CUDA_$(1)_HEADERS))' > $$@.new
	@if cmp -s $$@.new $$@; then rm $$@.new; else mv $$@.new $$@; fi
$(B)/cuda$(1)/objects: FORCE
	@mkdir -p $$(@D)
	@printf '%s\n' '$$(OBJECTS_$(1))' > $$@.new
	@if cmp -s $$@.new $$@; then rm $$@.new; else mv $$@.new $$@; fi

$(B)/cuda$(1)/obj/%.c.o: %.c $(B)/cuda$(1)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(HOST_$(1)) -MMD -MP -c $$< -o $$@
# An nvcc that writes no dependencies compiles anew when any header has changed.
$(B)/cuda$(1)/obj/%.cu.o: %.cu $(B)/cuda$(1)/flags $(if $(CUDA_$(1)_DEPEND),,$(wildcard cuda/*/*.h cuda/*/*.cuh src/*/*.h))
	@mkdir -p $$(@D)
	$$(CUDA_$(1)_NVCC) $$(DEVICE_$(1)) $$(if $$(findstring cuda/library/,$$<),$$(CUDA_$(1)_HEADERS)) \
	    $$(if $$(CUDA_$(1)_DEPEND),$$(CUDA_$(1)_DEPEND) $$(@:.o=.d)) -c $$< -o $$@
-include $$(OBJECTS_$(1):.o=.d)

$(B)/libfoldmill_cuda$(1).so: $$(OBJECTS_$(1)) $(LIBRARY) cuda/plugin.map $(B)/cuda$(1)/objects
	$$(CC) -shared $$(LDFLAGS) -Wl,--version-script=cuda/plugin.map -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,defs \
	    -Wl,--as-needed -o $$@ $$(OBJECTS_$(1)) $(LIBRARY) $$(CUDA_$(1)_RUNTIME) $$(LDLIBS) -ldl -lrt -lpthread -lm
	@scripts/cuda_needed.sh $$@
	@scripts/cuda_check_emulated.sh $$(lastword $$(CUDA_$(1)_INCLUDE)) $$(CC)
endef
plugin-objects-run: $(foreach major,$(MAJORS),$(patsubst %,$(B)/cuda$(major)/obj/%.o,$(PLUGIN_SOURCES)))
$(foreach major,$(MAJORS),$(eval $(call PLUGIN,$(major))))
