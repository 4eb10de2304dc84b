/* The common answers of both imitations of Triton's backend API: that of the fuzzer in
 * tests/campaigns/relay, and that of tests/unit/serving/relay. */
#include "triton.h"

#include <stdlib.h>

void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter *parameter) { free(parameter); }

TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor)
{
    *major = API_MAJOR;
    *minor = API_MINOR;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model, const char **name)
{
    (void)model;
    *name = "translate";
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *model,
                                                  TRITONBACKEND_ArtifactType *type,
                                                  const char **location)
{
    (void)model;
    *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
    *location = "/models/translate";
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *model, uint64_t *version)
{
    (void)model;
    *version = 3;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, bool success,
    uint64_t exec_start_ns, uint64_t compute_start_ns, uint64_t compute_end_ns,
    uint64_t exec_end_ns)
{
    (void)instance, (void)request, (void)success;
    (void)exec_start_ns, (void)compute_start_ns, (void)compute_end_ns, (void)exec_end_ns;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance *instance, uint64_t batch_size, uint64_t exec_start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns)
{
    (void)instance, (void)batch_size;
    (void)exec_start_ns, (void)compute_start_ns, (void)compute_end_ns, (void)exec_end_ns;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **message,
                                                              const char *base, size_t bytes)
{
    (void)bytes;
    *message = (TRITONSERVER_Message *)base;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *model,
                                                 uint32_t config_version,
                                                 TRITONSERVER_Message *config)
{
    (void)model;
    (void)config_version;
    (void)config;
    return NULL;
}
